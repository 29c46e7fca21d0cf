/**
 * The page at `/`, as a person uses it, and what a page elsewhere may not do.
 *
 * SCREENSHOTS names a folder to keep pictures of the page in.
 */

import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import type { Browser, Page } from "playwright-core"
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest"
import { launch } from "./chromium.ts"
import { takePlace, type Place } from "./place.ts"

const KEY = "a-key-that-only-this-test-knows"
/** A tab that lost its server comes back within ten seconds; a loaded machine is given more. */
const WITHIN_MS = 30_000

let place: Place
let browser: Browser

beforeAll(async () => {
  place = await takePlace()
  browser = await launch()
})

afterAll(async () => {
  await browser?.close()
  await place?.remove()
})

/** A tab of its own at `/`, as fresh as a new browser's. Errors of its scripts fail the test. */
async function open(options: Parameters<Browser["newContext"]>[0] = {}): Promise<Page> {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  page.setDefaultTimeout(WITHIN_MS)
  const errors: string[] = []
  page.on("pageerror", (error) => errors.push(String(error)))
  onTestFinished(async () => {
    await context.close()
    expect(errors).toEqual([])
  })
  await page.goto(place.baseUrl)
  return page
}

const url = (stream: string) => `${place.baseUrl}/v1/stream/${stream}`
const json = { "content-type": "application/json" }

async function request(method: string, stream: string, body?: string, headers: Record<string, string> = json) {
  const answer = await fetch(url(stream), { method, headers, ...(body === undefined ? {} : { body }) })
  expect(answer.ok, `${method} ${stream}: ${answer.status}`).toBe(true)
  return answer
}

const tailEnd = async (stream: string) => (await request("HEAD", stream)).headers.get("stream-next-offset")

async function choose(page: Page, stream: string): Promise<void> {
  await page.getByLabel("Name").fill(stream)
  await page.getByLabel("Name").press("Tab")
}

/** Appends, and waits for the answer: what the test does next must come after it. */
async function append(page: Page, message: string): Promise<void> {
  await page.getByLabel("Message", { exact: true }).fill(message)
  const answered = page.waitForResponse((answer) => answer.request().method() === "POST")
  await page.getByRole("button", { name: "Append", exact: true }).click()
  await answered
}

/** Waits until the tail shows exactly these payloads, in this order. */
async function shows(page: Page, payloads: string[]): Promise<void> {
  const shown = page.getByRole("log").locator(".payload")
  await expect.poll(() => shown.allTextContents(), { timeout: WITHIN_MS }).toEqual(payloads)
}

const isLive = (page: Page) => page.getByRole("status").getByText("live", { exact: true }).waitFor()

describe("the page", () => {
  test("says that the server is alive, on which store, and how far the log is", async () => {
    const page = await open()
    await page.getByText(/^alive · SQLite · tip \d{4}_\d{16}$/).waitFor()
  })

  test("creates a stream, appends to it and shows its messages live with their offsets", async () => {
    const page = await open()
    await choose(page, "browser/first")
    await page.getByText("There is no stream of this name yet.").waitFor()
    await page.getByRole("button", { name: "Create", exact: true }).click()
    await isLive(page)
    await append(page, '{"n": 1}')
    await shows(page, ['{"n":1}'])
    await append(page, '[{"n": 12345678901234567890}, "<b>&amp;</b>"]')
    await shows(page, ['{"n":1}', '{"n":12345678901234567890}', '"<b>&amp;</b>"'])
    const offsets = await page.getByRole("log").locator(".offset").allTextContents()
    expect(new Set(offsets).size).toBe(3)
    expect(offsets).toEqual([...offsets].sort())
    expect(offsets.at(-1)).toBe(await tailEnd("browser/first"))
  })

  test("shows what others append without a reload", async () => {
    await request("PUT", "browser/second", '["before"]')
    const page = await open()
    await choose(page, "browser/second")
    await shows(page, ['"before"'])
    await isLive(page)
    await request("POST", "browser/second", '{"from": "outside"}')
    await shows(page, ['"before"', '{"from":"outside"}'])
  })

  test("shows each append of a text stream on its own", async () => {
    const text = { "content-type": "text/plain" }
    await request("PUT", "browser/text", undefined, text)
    const page = await open()
    await choose(page, "browser/text")
    await isLive(page)
    await append(page, "one\ntwo")
    await request("POST", "browser/text", "three", text)
    await shows(page, ["one\ntwo", "three"])
  })

  test("takes the tail up again when the server is restarted, and shows every message once", async () => {
    await request("PUT", "browser/third", '["before"]')
    const page = await open()
    await choose(page, "browser/third")
    await isLive(page)
    await place.restart()
    await request("POST", "browser/third", '["while away"]')
    await shows(page, ['"before"', '"while away"'])
    await isLive(page)
    await request("POST", "browser/third", '["later"]')
    await shows(page, ['"before"', '"while away"', '"later"'])
  })

  test("says that a stream was closed", async () => {
    await request("PUT", "browser/closed")
    const page = await open()
    await choose(page, "browser/closed")
    await isLive(page)
    await request("POST", "browser/closed", '"last"', { ...json, "stream-closed": "true" })
    await page.getByText("the stream is closed").waitFor()
    await shows(page, ['"last"'])
  })

  test("tells what the server refuses, and what to do about it", async () => {
    await request("PUT", "browser/refusing")
    const page = await open()
    await choose(page, "browser/refusing")
    await append(page, "{not json")
    await page.getByText("Invalid json").waitFor()
    await page.getByText("What to do: send one JSON value, or an array of them.").waitFor()
    await page.getByText("400 invalid_json").waitFor()
  })

  test("gives every action as a command that works in a shell", async () => {
    const page = await open()
    await choose(page, "browser/it's")
    await page.getByLabel("Message", { exact: true }).fill("\"it's\"")
    const code = page.locator(".curl code")
    const quoted = `'${place.baseUrl}/v1/stream/browser/it'\\''s'`
    expect(await code.allTextContents()).toEqual([
      `curl -X PUT ${quoted} -H 'content-type: application/json'`,
      `curl ${quoted} -H 'content-type: application/json' --data-raw '"it'\\''s"'`,
      `curl -N '${place.baseUrl}/v1/stream/browser/it'\\''s?offset=-1&live=sse'`,
    ])
  })

  test.each([
    ["light", 1200],
    ["dark", 1200],
    ["light", 360],
  ] as const)("fits a %s screen %i pixels wide", async (colorScheme, width) => {
    const page = await open({ colorScheme, viewport: { width, height: 900 } })
    const stream = `browser/${colorScheme}-${width}`
    await choose(page, stream)
    await page.getByRole("button", { name: "Create", exact: true }).click()
    await isLive(page)
    await append(page, JSON.stringify({ text: "a message that is longer than a telephone is wide ".repeat(3) }))
    await append(page, '["short", 2]')
    await append(page, "{not json")
    await page.getByText("400 invalid_json").waitFor()
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBeLessThanOrEqual(width)
    if (process.env.SCREENSHOTS) {
      await page.screenshot({ path: join(process.env.SCREENSHOTS, `${colorScheme}-${width}.png`), fullPage: true })
    }
  })
})

describe("a page of another origin", () => {
  /** What a page at `host` achieves with the server at `target`. */
  async function attempts(host: string, stream: string): Promise<Record<string, string>> {
    const elsewhere = createServer((_, answer) => answer.setHeader("content-type", "text/html").end("<title>elsewhere</title>"))
    await new Promise<void>((resolve) => elsewhere.listen(0, "127.0.0.1", resolve))
    const page = await browser.newPage()
    onTestFinished(async () => {
      await page.close()
      await new Promise((resolve) => elsewhere.close(resolve))
    })
    await page.goto(`http://${host}:${(elsewhere.address() as AddressInfo).port}/`)
    return page.evaluate(async (target) => {
      const attempt = (init: RequestInit) =>
        fetch(target, init).then((answer) => `${answer.type} ${answer.status}`, () => "failed")
      const text = { "content-type": "text/plain" }
      return {
        read: await attempt({}),
        append: await attempt({ method: "POST", headers: text, body: "x" }),
        appendUnseen: await attempt({ method: "POST", mode: "no-cors", headers: text, body: "x" }),
        remove: await attempt({ method: "DELETE" }),
      }
    }, url(stream))
  }

  test("reads nothing and changes nothing", async () => {
    await request("PUT", "browser/guarded", "secret", { "content-type": "text/plain" })
    const before = await tailEnd("browser/guarded")
    // A page that does not ask to see the answer always gets an opaque one; what counts is that nothing happened.
    expect(await attempts("evil.localhost", "browser/guarded")).toEqual({
      read: "failed",
      append: "failed",
      appendUnseen: "opaque 0",
      remove: "failed",
    })
    expect(await tailEnd("browser/guarded")).toBe(before)
  })

  test("on this machine is let in, so that the one above is refused for its origin alone", async () => {
    await request("PUT", "browser/open", "known", { "content-type": "text/plain" })
    expect(await attempts("localhost", "browser/open")).toMatchObject({
      read: "cors 200",
      append: "cors 204",
      remove: "cors 204",
    })
  })

  test("that points its own name at the server is refused", async () => {
    const page = await browser.newPage()
    onTestFinished(() => page.close())
    const { port } = new URL(place.baseUrl)
    const answer = await page.goto(`http://evil.localhost:${port}/`)
    expect(answer?.status()).toBe(403)
    expect(await answer?.json()).toMatchObject({ code: "host_not_allowed" })
  })
})

describe("under tidewire serve", () => {
  test("the page asks for the key, uses it, and keeps it in its tab only", async () => {
    await request("PUT", "browser/keyed", '["kept"]')
    await place.restart(KEY)
    const page = await open()
    await page.getByText("This server asks for a key").waitFor()
    await choose(page, "browser/keyed")
    await page.getByLabel("The server's key").fill("not-the-key-of-this-server")
    await page.getByRole("button", { name: "Use this key" }).click()
    await page.getByText("The key is not valid").waitFor()
    await page.getByLabel("The server's key").fill(KEY)
    await page.getByRole("button", { name: "Use this key" }).click()
    await shows(page, ['"kept"'])
    await append(page, '"with the key"')
    await shows(page, ['"kept"', '"with the key"'])
    expect(await page.locator(".curl").allTextContents()).not.toContain(KEY)
    const stored = await page.evaluate(() => [JSON.stringify(localStorage), document.cookie, JSON.stringify(sessionStorage)])
    expect(stored).toEqual(["{}", "", JSON.stringify({ "tidewire-key": KEY })])
    const other = await open()
    await other.getByText("This server asks for a key").waitFor()
  })
})
