// Secrets and public keys, and which signatures they accept.

const SECRET = "whsec_";
const PUBLIC = "whpk_";
/** The minimum of Standard Webhooks; Minutehand's keys have 32 bytes. */
const SECRET_BYTES = 24;
const PUBLIC_BYTES = 32;
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** A secret or public key. `version`: that of the signatures it can check. */
export interface Judge {
  readonly version: "v1" | "v1a";
  /** Whether any of the signatures, in base64, is of `signed`. */
  matches(signed: Uint8Array<ArrayBuffer>, signatures: readonly string[]): Promise<boolean>;
}

/** Rejects with a TypeError for what is neither a secret nor a public key. */
export async function judgeOf(text: string): Promise<Judge> {
  return text.startsWith(PUBLIC) ? publicKey(text) : secretOf(text);
}

async function secretOf(text: string): Promise<Judge> {
  if (!text.startsWith(SECRET)) {
    throw new TypeError(`a signing secret begins with ${SECRET}, a public key with ${PUBLIC}`);
  }
  const bytes = decoded(text.slice(SECRET.length));
  if (bytes === undefined) {
    throw new TypeError(`a signing secret is ${SECRET} followed by base64`);
  }
  if (bytes.length < SECRET_BYTES) {
    throw new TypeError(`a signing secret has a key of at least ${SECRET_BYTES} bytes; this one has ${bytes.length}`);
  }
  const key = await crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
  return {
    version: "v1",
    async matches(signed, signatures) {
      const own = encoded(new Uint8Array(await crypto.subtle.sign("HMAC", key, signed)));
      // Each is compared, whether or not one has matched.
      return signatures.map((given) => same(own, given)).includes(true);
    },
  };
}

async function publicKey(text: string): Promise<Judge> {
  const bytes = decoded(text.slice(PUBLIC.length));
  if (bytes === undefined) {
    throw new TypeError(`a public key is ${PUBLIC} followed by base64`);
  }
  if (bytes.length !== PUBLIC_BYTES) {
    throw new TypeError(`a public key has ${PUBLIC_BYTES} bytes; this one has ${bytes.length}`);
  }
  const key = await crypto.subtle.importKey("raw", bytes, "Ed25519", false, ["verify"]);
  return {
    version: "v1a",
    async matches(signed, signatures) {
      for (const given of signatures) {
        const signature = decoded(given);
        if (signature !== undefined && (await crypto.subtle.verify("Ed25519", key, signature, signed))) {
          return true;
        }
      }
      return false;
    },
  };
}

/** Takes as long for every `given` of the length of `own`. */
function same(own: string, given: string): boolean {
  let different = own.length ^ given.length;
  for (let position = 0; position < own.length; position++) {
    different |= own.charCodeAt(position) ^ given.charCodeAt(position);
  }
  return different === 0;
}

/** The bytes of strict base64; undefined for anything else. */
function decoded(text: string): Uint8Array<ArrayBuffer> | undefined {
  return BASE64.test(text) ? Uint8Array.from(atob(text), (one) => one.charCodeAt(0)) : undefined;
}

function encoded(bytes: Uint8Array): string {
  return btoa(String.fromCharCode(...bytes));
}
