// A client's keys and signing secrets, for administrators and keys of scope `manage`.

import { path, type Sending } from "./operation.js";
import { itemsOf } from "./pages.js";
import { Part } from "./part.js";
import type {
  Key,
  KeyRequest,
  NewKey,
  NewSigningSecret,
  Page,
  PublicKey,
  SecretRequest,
  SigningSecret,
} from "./types.js";

/** A client's keys. */
export class Keys extends Part {
  /** Make a key; it is shown this once. `scope`: read, write (unless given) or manage. */
  async create(options: KeyRequest = {}, sending?: Sending): Promise<NewKey> {
    return this.perform({ method: "POST", path: this.#all, body: options, sending });
  }

  async list(sending?: Sending): Promise<Key[]> {
    return itemsOf(this.perform<Page<Key>>({ method: "GET", path: this.#all, sending }));
  }

  async revoke(keyId: string, sending?: Sending): Promise<void> {
    return this.perform({ method: "DELETE", path: path`/v1/clients/${this.clientId}/keys/${keyId}`, sending });
  }

  get #all(): string {
    return path`/v1/clients/${this.clientId}/keys`;
  }
}

/** A client's signing secrets. */
export class SigningSecrets extends Part {
  /**
   * Make a secret beside the existing ones; it is shown this once. `scheme`: v1 unless given, or v1a for a key pair,
   * whose public key is no secret.
   */
  async create(options: SecretRequest = {}, sending?: Sending): Promise<NewSigningSecret> {
    return this.perform({ method: "POST", path: this.#all, body: options, sending });
  }

  async list(sending?: Sending): Promise<SigningSecret[]> {
    return itemsOf(this.perform<Page<SigningSecret>>({ method: "GET", path: this.#all, sending }));
  }

  async delete(secretId: string, sending?: Sending): Promise<void> {
    const url = path`/v1/clients/${this.clientId}/signing-secrets/${secretId}`;
    return this.perform({ method: "DELETE", path: url, sending });
  }

  /** Those of the client's active key pairs, which everybody may read. May be a minute behind. */
  async publicKeys(sending?: Sending): Promise<PublicKey[]> {
    const url = path`/v1/public-keys/${this.clientId}`;
    return itemsOf(this.perform<Page<PublicKey>>({ method: "GET", path: url, sending }));
  }

  get #all(): string {
    return path`/v1/clients/${this.clientId}/signing-secrets`;
  }
}
