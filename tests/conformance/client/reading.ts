/**
 * Reading what is there, following what comes, and resuming without a gap or a duplicate.
 */

import { describe, expect, onTestFinished, test } from "vitest"
import {
  type Client,
  Collected,
  collect,
  freshUrl,
  JSON_TYPE,
  type LiveMode,
  numbers,
  recordingLiveModes,
} from "./testbed.ts"

export function reading(client: Client, baseUrl: string): void {
  const { DurableStream } = client
  const jsonStream = () => DurableStream.create({ url: freshUrl(baseUrl), contentType: JSON_TYPE })

  describe("catching up", () => {
    test("a large stream is read back byte for byte, however it is chunked", async () => {
      const stream = await DurableStream.create({ url: freshUrl(baseUrl), batching: false })
      const pieces = numbers(0, 48).map((number) => new Uint8Array(256 * 1024).fill(number))
      for (const piece of pieces) await stream.append(piece)
      // With `live: false` this client takes the first chunk for the whole; `body()` stops at the tail anyway.
      const body = await (await client.stream({ url: stream.url })).body()
      expect(Buffer.from(body).equals(Buffer.concat(pieces))).toBe(true)
    })

    test("a reader resumes after the offset it saved", async () => {
      const stream = await jsonStream()
      for (const number of numbers(0, 5)) await stream.append(String(number))
      const first = await client.stream<number>({ url: stream.url, live: false })
      expect(await first.json()).toEqual(numbers(0, 5))
      for (const number of numbers(5, 9)) await stream.append(String(number))
      const second = await client.stream<number>({ url: stream.url, offset: first.offset, live: false })
      expect(await second.json()).toEqual(numbers(5, 9))
      const third = await client.stream<number>({ url: stream.url, offset: second.offset, live: false })
      expect(await third.json()).toEqual([])
    })

    test("`now` skips what is there", async () => {
      const stream = await jsonStream()
      await stream.append("1")
      const session = await client.stream<number>({ url: stream.url, offset: "now" })
      const collected = collect(session)
      await stream.append("2")
      await collected.until(1)
      expect(collected.items).toEqual([2])
    })
  })

  describe.each<LiveMode>(["long-poll", "sse"])("live by %s", (live) => {
    test("each message arrives while the reader waits for it", async () => {
      const stream = await jsonStream()
      await stream.append("0")
      const { fetch, asked } = recordingLiveModes()
      const collected = collect(await client.stream<number>({ url: stream.url, live, fetch }))
      await collected.until(1)
      for (const number of numbers(1, 10)) {
        await stream.append(String(number))
        await collected.until(number + 1)
      }
      expect(collected.items).toEqual(numbers(0, 10))
      expect([...asked]).toEqual([live])
    })

    test("a burst arrives whole and in order at every reader", async () => {
      const stream = await jsonStream()
      const readers = await Promise.all(
        numbers(0, 3).map(async () => collect(await client.stream<number>({ url: stream.url, live }))),
      )
      await Promise.all(numbers(0, 300).map((number) => stream.append(String(number))))
      for (const reader of readers) {
        await reader.until(300)
        expect(reader.items).toEqual(numbers(0, 300))
      }
    })

    test("a reader that leaves and resumes misses nothing and gets nothing twice", async () => {
      const stream = await jsonStream()
      const writes = (async () => {
        for (const number of numbers(0, 100)) await stream.append(String(number))
      })()
      const got: number[] = []
      let offset = "-1"
      // Each session leaves in the middle of the writes, as soon as it has got something.
      for (let sessions = 0; got.length < 100; sessions++) {
        const session = await client.stream<number>({ url: stream.url, live, offset })
        const collected = collect(session)
        await collected.until(1)
        session.cancel()
        got.push(...collected.items)
        offset = collected.offset
        expect(sessions).toBeLessThan(100)
      }
      await writes
      expect(got).toEqual(numbers(0, 100))
    })

    test("text arrives as it was written, line breaks and all", async () => {
      const written = ["first\n", "\nsecond\r\nline", "data: not a field\n\n", "ünïcödé"]
      const stream = await DurableStream.create({ url: freshUrl(baseUrl), contentType: "text/plain" })
      const session = await client.stream({ url: stream.url, live })
      onTestFinished(() => session.cancel())
      const collected = new Collected<string>()
      session.subscribeText(({ text, offset }) => collected.add([...text], offset))
      for (const text of written) await stream.append(text)
      const expected = normalised(written.join(""), live)
      await collected.until([...expected].length)
      expect(collected.items.join("")).toBe(expected)
    })

    test("bytes of every value arrive as they were written", async () => {
      const stream = await DurableStream.create({ url: freshUrl(baseUrl) })
      const session = await client.stream({ url: stream.url, live })
      onTestFinished(() => session.cancel())
      const collected = new Collected<number>()
      session.subscribeBytes(({ data, offset }) => collected.add([...data], offset))
      await stream.append(Uint8Array.from(numbers(0, 200)))
      await collected.until(200)
      await stream.append(Uint8Array.from(numbers(200, 256)))
      await collected.until(256)
      expect(collected.items).toEqual(numbers(0, 256))
    })

    test("a waiting reader gets the last message and the end when the stream is closed", async () => {
      const stream = await jsonStream()
      await stream.append("1")
      const session = await client.stream<number>({ url: stream.url, live })
      const got: number[] = []
      for await (const number of session.jsonStream()) {
        got.push(number)
        if (number === 1) await stream.append("2")
        if (number === 2) await stream.close({ body: "3" })
      }
      expect(got).toEqual([1, 2, 3])
      expect(session.streamClosed).toBe(true)
    })

    test("a waiting reader sees a close that brings no message", async () => {
      const stream = await jsonStream()
      await stream.append("1")
      const session = await client.stream<number>({ url: stream.url, live })
      const got: number[] = []
      for await (const number of session.jsonStream()) {
        got.push(number)
        await stream.close()
      }
      expect(got).toEqual([1])
      expect(session.streamClosed).toBe(true)
    })
  })
}

/** An event stream has one line break, so text sent through it loses the difference between `\r\n` and `\n`. */
function normalised(text: string, live: LiveMode): string {
  return live === "sse" ? text.replaceAll("\r\n", "\n") : text
}
