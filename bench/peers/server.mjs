// Runs the official Node reference server of Durable Streams on its file-backed store.
// Usage: node server.mjs PORT DATA_FOLDER

import { mkdirSync } from "node:fs"
import { DurableStreamTestServer, FileBackedStreamStore } from "@durable-streams/server"

// The store keeps 100 files open by default and answers 404 when more streams than that are appended
// to at once (a handle is closed between its write and its fdatasync). The server does not pass this
// option on, so the store is made here.
const MAX_FILE_HANDLES = 4096

const [port, dataDir] = process.argv.slice(2)
mkdirSync(dataDir, { recursive: true })

const server = new DurableStreamTestServer({ port: Number(port), host: "127.0.0.1" })
server.store = new FileBackedStreamStore({ dataDir, maxFileHandles: MAX_FILE_HANDLES })
await server.start()

// The server has no health route: a stream that can be read says that it is ready.
await fetch(`http://127.0.0.1:${port}/v1/stream/ready`, { method: "PUT" })
