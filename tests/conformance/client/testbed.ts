/**
 * What the client's tests share: fresh streams, a reader that remembers, and networks that misbehave on purpose.
 */

import { randomUUID } from "node:crypto"
import type * as api from "@durable-streams/client"
import { onTestFinished } from "vitest"

export type Client = typeof api
export type LiveMode = "long-poll" | "sse"
type Session = api.StreamResponse<number>

export const JSON_TYPE = "application/json"

export function freshUrl(baseUrl: string): string {
  return `${baseUrl}/v1/stream/client/${randomUUID()}`
}

/** The numbers from `from` up to and without `to`: what most tests write, so that order and gaps are plain to see. */
export function numbers(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, index) => from + index)
}

/** Collects what a live session delivers and lets a test wait for it, so that nothing has to sleep. */
export class Collected<T> {
  readonly items: T[] = []
  /** Where to resume: the position after the last item. */
  offset = "-1"
  #waiting: { count: number; resolve: () => void }[] = []

  add(items: readonly T[], offset: string): void {
    this.items.push(...items)
    this.offset = offset
    this.#waiting = this.#waiting.filter(({ count, resolve }) => {
      if (this.items.length < count) return true
      resolve()
      return false
    })
  }

  async until(count: number): Promise<void> {
    if (this.items.length >= count) return
    await new Promise<void>((resolve) => this.#waiting.push({ count, resolve }))
  }
}

/** Follows a session of JSON numbers until the test ends. */
export function collect(session: Session): Collected<number> {
  const collected = new Collected<number>()
  session.subscribeJson<number>((batch) => collected.add(batch.items, batch.offset))
  onTestFinished(() => session.cancel())
  return collected
}

/** A `fetch` that notes which live modes were asked for: a client may fall back from SSE without a word. */
export function recordingLiveModes(): { fetch: typeof fetch; asked: Set<string> } {
  const asked = new Set<string>()
  return {
    asked,
    fetch: (input, init) => {
      const live = new URL(String(input)).searchParams.get("live")
      if (live) asked.add(live)
      return fetch(input, init)
    },
  }
}

/** A `fetch` whose request arrives but whose answer is lost, every other time, beginning with the first. */
export function losingAnswers(): { fetch: typeof fetch; lost: () => number } {
  let sent = 0
  let lost = 0
  return {
    lost: () => lost,
    fetch: async (input, init) => {
      const response = await fetch(input, init)
      if (sent++ % 2 === 1) return response
      lost++
      await response.arrayBuffer()
      throw new TypeError("the answer was lost on purpose")
    },
  }
}
