/**
 * Creating, appending, closing, deleting; and the errors that the client hands to its caller.
 */

import { describe, expect, test } from "vitest"
import { type Client, freshUrl, JSON_TYPE, numbers } from "./testbed.ts"

export function writing(client: Client, baseUrl: string): void {
  const { DurableStream } = client
  const readJson = async (url: string) => (await client.stream<number>({ url, live: false })).json()
  const readText = async (url: string) => (await client.stream({ url, live: false })).text()

  describe("writing", () => {
    test("a created stream is described by HEAD", async () => {
      const url = freshUrl(baseUrl)
      expect(await DurableStream.head({ url })).toEqual({ exists: false })
      await DurableStream.create({ url, contentType: "text/plain", body: "first" })
      const head = await DurableStream.head({ url })
      expect(head).toMatchObject({ exists: true, contentType: "text/plain", streamClosed: false })
      expect(await readText(url)).toBe("first")
    })

    test("strings are appended in order", async () => {
      const stream = await DurableStream.create({ url: freshUrl(baseUrl), contentType: "text/plain" })
      for (const word of ["one ", "two ", "three – ünïcödé"]) await stream.append(word)
      expect(await readText(stream.url)).toBe("one two three – ünïcödé")
    })

    test("JSON values come back as they were, arrays among them", async () => {
      const stream = await DurableStream.create({ url: freshUrl(baseUrl), contentType: JSON_TYPE })
      const values = [{ nested: { deep: [1, 2] } }, [1, [2, 3]], "text", 1.5, true, null, []]
      for (const value of values) await stream.append(JSON.stringify(value))
      expect(await readJson(stream.url)).toEqual(values)
    })

    test("appends made at once are batched into few requests and keep their order", async () => {
      let posts = 0
      const counting: typeof fetch = (input, init) => {
        if (init?.method === "POST") posts++
        return fetch(input, init)
      }
      const url = freshUrl(baseUrl)
      const stream = await DurableStream.create({ url, contentType: JSON_TYPE, fetch: counting })
      await Promise.all(numbers(0, 100).map((number) => stream.append(String(number))))
      expect(await readJson(url)).toEqual(numbers(0, 100))
      expect(posts).toBeLessThan(10)
    })

    test("bytes from a source of unknown length are appended by one streamed request", async () => {
      const stream = await DurableStream.create({ url: freshUrl(baseUrl) })
      const pieces = numbers(0, 50).map((number) => new Uint8Array(1_000).fill(number))
      await stream.appendStream(
        (async function* () {
          yield* pieces
        })(),
      )
      const body = await (await client.stream({ url: stream.url, live: false })).body()
      expect(Buffer.from(body).equals(Buffer.concat(pieces))).toBe(true)
    })

    test("a closed stream keeps its content and reports its end", async () => {
      const stream = await DurableStream.create({ url: freshUrl(baseUrl), contentType: JSON_TYPE })
      await stream.append("1")
      const { finalOffset } = await stream.close({ body: "2" })
      expect(await stream.close()).toEqual({ finalOffset })
      expect(await stream.head()).toMatchObject({ streamClosed: true, offset: finalOffset })
      expect(await readJson(stream.url)).toEqual([1, 2])
    })
  })

  describe("errors", () => {
    test("404: reading, appending to or deleting what does not exist", async () => {
      const url = freshUrl(baseUrl)
      const missing = new DurableStream({ url, contentType: "text/plain" })
      await expect(client.stream({ url })).rejects.toMatchObject({ status: 404 })
      await expect(missing.append("x")).rejects.toMatchObject({ status: 404 })
      await expect(missing.delete()).rejects.toMatchObject({ status: 404 })
    })

    test("404: reading a deleted stream", async () => {
      const stream = await DurableStream.create({ url: freshUrl(baseUrl), body: "x" })
      await stream.delete()
      await expect(client.stream({ url: stream.url })).rejects.toMatchObject({ status: 404 })
    })

    test("409: creating a stream that exists with another content type", async () => {
      const url = freshUrl(baseUrl)
      await DurableStream.create({ url, contentType: "text/plain" })
      await DurableStream.create({ url, contentType: "text/plain" })
      await expect(DurableStream.create({ url, contentType: JSON_TYPE })).rejects.toMatchObject({ status: 409 })
    })

    test("409: appending with another content type leaves the stream as it was", async () => {
      const stream = await DurableStream.create({ url: freshUrl(baseUrl), contentType: "text/plain", body: "kept" })
      await expect(stream.append("[1]", { contentType: JSON_TYPE })).rejects.toMatchObject({ status: 409 })
      expect(await readText(stream.url)).toBe("kept")
    })

    test("409: a writer's sequence that does not rise", async () => {
      const stream = await DurableStream.create({ url: freshUrl(baseUrl), contentType: JSON_TYPE })
      await stream.append("1", { seq: "b" })
      await expect(stream.append("2", { seq: "b" })).rejects.toMatchObject({ status: 409 })
      await expect(stream.append("3", { seq: "a" })).rejects.toMatchObject({ status: 409 })
      await stream.append("4", { seq: "c" })
      expect(await readJson(stream.url)).toEqual([1, 4])
    })

    test("409: appending to a closed stream says that it is closed and where it ends", async () => {
      const stream = await DurableStream.create({ url: freshUrl(baseUrl), contentType: "text/plain", body: "all" })
      const { finalOffset } = await stream.close()
      await expect(stream.append("more")).rejects.toMatchObject({
        status: 409,
        headers: { "stream-closed": "true", "stream-next-offset": finalOffset },
      })
      expect(await readText(stream.url)).toBe("all")
    })

    test("400: an offset the server never gave", async () => {
      const { url } = await DurableStream.create({ url: freshUrl(baseUrl), contentType: "text/plain" })
      await expect(client.stream({ url, offset: "not an offset" })).rejects.toMatchObject({ status: 400 })
    })
  })
}
