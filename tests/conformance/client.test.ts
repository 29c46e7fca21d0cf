/**
 * The official TypeScript client, driven against the server: the version the suite goes with, and the newest.
 */

import * as newest from "@durable-streams/client"
import * as ofTheSuite from "@durable-streams/client-of-the-suite"
import newestPackage from "@durable-streams/client/package.json" with { type: "json" }
import ofTheSuitePackage from "@durable-streams/client-of-the-suite/package.json" with { type: "json" }
import { describe } from "vitest"
import { producing } from "./client/producing.ts"
import { reading } from "./client/reading.ts"
import type { Client } from "./client/testbed.ts"
import { writing } from "./client/writing.ts"
import { endsWell, serverForThisFile } from "./fixture.ts"

const server = await serverForThisFile()

const versions: [string, Client][] = [
  [newestPackage.version, newest],
  // Classes with private fields are never assignable between two copies of a package, however alike.
  [ofTheSuitePackage.version, ofTheSuite as unknown as Client],
]

describe.each(versions)("client %s", (_version, client) => {
  writing(client, server.baseUrl)
  reading(client, server.baseUrl)
  producing(client, server.baseUrl)
})

endsWell(server)
