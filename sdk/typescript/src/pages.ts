// Lists that are asked for page by page.

import type { Operation, Perform } from "./operation.js";
import type { Page } from "./types.js";

/**
 * The items of a list, asked for page by page as they are iterated over:
 *
 *     for await (const schedule of shop.schedules.list()) …
 */
export class Pages<T> implements AsyncIterable<T> {
  readonly #perform: Perform;
  readonly #operation: Operation<Page<T>>;

  constructor(perform: Perform, operation: Operation<Page<T>>) {
    this.#perform = perform;
    this.#operation = operation;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for await (const page of this.pages()) {
      yield* page.items;
    }
  }

  /** The pages themselves, with their cursors. */
  async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    let operation: Operation<Page<T>> | undefined = this.#operation;
    while (operation !== undefined) {
      const page: Page<T> = await this.#perform(operation);
      yield page;
      operation = page.next_cursor === null ? undefined : after(operation, page.next_cursor);
    }
  }

  /** All items, of as many pages as there are. */
  async all(): Promise<T[]> {
    const items: T[] = [];
    for await (const item of this) {
      items.push(item);
    }
    return items;
  }
}

/** The cursor carries the window and the filters. */
function after<T>(operation: Operation<T>, cursor: string): Operation<T> {
  return { ...operation, query: { limit: operation.query?.["limit"], cursor } };
}

/** The items of the page of `further(undefined)` and of those after it, which are all asked for. */
export async function allItems<T>(
  perform: Perform,
  further: (cursor: string | undefined) => Operation<Page<T>>,
): Promise<T[]> {
  const items: T[] = [];
  let cursor: string | null | undefined;
  while (cursor !== null) {
    const page: Page<T> = await perform(further(cursor));
    items.push(...page.items);
    cursor = page.next_cursor;
  }
  return items;
}

/** The items of a list that has one page. */
export async function itemsOf<T>(page: Promise<{ items: T[] }>): Promise<T[]> {
  return (await page).items;
}
