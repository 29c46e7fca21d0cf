/**
 * The client's idempotent producer: every message once, whatever the network does, and one producer at a time.
 */

import { describe, expect, test } from "vitest"
import { type Client, freshUrl, JSON_TYPE, losingAnswers, numbers } from "./testbed.ts"

/** Retries at once and for ever: the test's own timeout is the limit. */
const AT_ONCE = { initialDelay: 1, maxDelay: 1, multiplier: 1 }

export function producing(client: Client, baseUrl: string): void {
  const { DurableStream, IdempotentProducer, StaleEpochError } = client
  const jsonStream = () => DurableStream.create({ url: freshUrl(baseUrl), contentType: JSON_TYPE })
  const readJson = async (url: string) => (await client.stream<number>({ url, live: false })).json()

  describe("producing", () => {
    test("messages sent without waiting arrive in order, many to a batch", async () => {
      const stream = await jsonStream()
      const producer = new IdempotentProducer(stream, "writer")
      for (const number of numbers(0, 500)) producer.append(String(number))
      await producer.flush()
      expect(await readJson(stream.url)).toEqual(numbers(0, 500))
      expect(producer.lastSuccessfulOffset).toBe((await stream.head() as { offset: string }).offset)
    })

    test("an append whose answer was lost is sent again and stored once", async () => {
      const stream = await jsonStream()
      const network = losingAnswers()
      const producer = new IdempotentProducer(stream, "writer", {
        fetch: client.createFetchWithBackoff(network.fetch, AT_ONCE),
        maxInFlight: 1,
      })
      for (const number of numbers(0, 10)) {
        producer.append(String(number))
        await producer.flush()
      }
      expect(network.lost()).toBe(10)
      expect(await readJson(stream.url)).toEqual(numbers(0, 10))
    })

    test("a close whose answer was lost is sent again and its last message stored once", async () => {
      const stream = await jsonStream()
      const network = losingAnswers()
      const producer = new IdempotentProducer(stream, "writer", {
        fetch: client.createFetchWithBackoff(network.fetch, AT_ONCE),
        maxInFlight: 1,
      })
      producer.append("1")
      const { finalOffset } = await producer.close("2")
      expect(network.lost()).toBe(2)
      expect(await stream.head()).toMatchObject({ streamClosed: true, offset: finalOffset })
      expect(await readJson(stream.url)).toEqual([1, 2])
    })

    test("batches that overtake each other are stored in the order they were made", async () => {
      const stream = await jsonStream()
      const statuses: number[] = []
      let overtaken = () => {}
      const second = new Promise<void>((resolve) => {
        overtaken = resolve
      })
      // The first batch is held back until the second has been answered.
      const reordering: typeof fetch = async (input, init) => {
        const seq = new Headers(init?.headers).get("producer-seq")
        if (seq === "0") await second
        const response = await fetch(input, init)
        statuses.push(response.status)
        if (seq === "1") overtaken()
        return response
      }
      // A batch is full with its first message, so that each has a sequence number of its own.
      const producer = new IdempotentProducer(stream, "writer", { fetch: reordering, maxBatchBytes: 1 })
      producer.append("1")
      producer.append("2")
      await producer.flush()
      expect(await readJson(stream.url)).toEqual([1, 2])
      expect(statuses).toEqual([409, 200, 200])
    })

    test("a producer of an older epoch is refused and told the present one", async () => {
      const stream = await jsonStream()
      const present = new IdempotentProducer(stream, "writer", { epoch: 3 })
      present.append("1")
      await present.flush()
      const errors: Error[] = []
      const old = new IdempotentProducer(stream, "writer", { epoch: 2, onError: (error) => errors.push(error) })
      old.append("2")
      await old.flush().catch(() => {})
      expect(errors).toEqual([expect.any(StaleEpochError)])
      expect(errors[0]).toMatchObject({ currentEpoch: 3 })
      expect(await readJson(stream.url)).toEqual([1])
    })

    test("a producer that claims its place fences the one before it", async () => {
      const stream = await jsonStream()
      const errors: Error[] = []
      const before = new IdempotentProducer(stream, "writer", { onError: (error) => errors.push(error) })
      before.append("1")
      await before.flush()
      const after = new IdempotentProducer(stream, "writer", { epoch: 0, autoClaim: true })
      await before.restart()
      before.append("2")
      await before.flush()
      after.append("3")
      await after.flush()
      expect(after.epoch).toBe(2)
      before.append("4")
      await before.flush().catch(() => {})
      expect(errors).toEqual([expect.any(StaleEpochError)])
      expect(await readJson(stream.url)).toEqual([1, 2, 3])
    })

    test("producers of different names do not disturb each other", async () => {
      const stream = await jsonStream()
      const producers = ["a", "b", "c"].map((name) => new IdempotentProducer(stream, name, { maxBatchBytes: 1 }))
      for (const number of numbers(0, 60)) producers[number % 3]?.append(String(number))
      await Promise.all(producers.map((producer) => producer.flush()))
      const stored = await readJson(stream.url)
      expect(stored.toSorted((left, right) => left - right)).toEqual(numbers(0, 60))
      for (const remainder of [0, 1, 2]) {
        const own = stored.filter((number) => number % 3 === remainder)
        expect(own).toEqual(own.toSorted((left, right) => left - right))
      }
    })
  })
}
