/**
 * Debian's Chromium without a window. CHROMIUM names another binary.
 */

import { type Browser, chromium } from "playwright-core"

export function launch(): Promise<Browser> {
  return chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: [
      "--headless",
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      // A test machine need not reach the Internet, and a browser that tries waits for it.
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  })
}
