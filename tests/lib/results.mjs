/**
 * Reads what the test runners leave behind into one shape, a list of `{ name, outcome }`.
 * A name is what `tests/known-failures.txt` lists; an outcome is "passed", "failed" or "skipped".
 *
 * Called by summary.mjs. Plain Node without packages, so that `./test quick` needs no `npm ci`.
 */

/** nextest's JUnit report. A name is `binary-id test::path`, as nextest prints it. */
export function readJunit(xml) {
  const cases = []
  // Text inside a report is escaped, so a `<testcase` in a test's output cannot be taken for one.
  for (const [, attributes, end, body = ""] of xml.matchAll(
    /<testcase\s((?:[^>"]|"[^"]*")*?)(\/>|>([\s\S]*?)<\/testcase>)/g,
  )) {
    const name = `${attribute(attributes, "classname")} ${attribute(attributes, "name")}`
    const failed = end !== "/>" && /<(failure|error)[\s>/]/.test(body)
    const skipped = end !== "/>" && /<skipped[\s>/]/.test(body)
    cases.push({ name, outcome: failed ? "failed" : skipped ? "skipped" : "passed" })
  }
  return cases
}

/**
 * vitest's JSON report. A name is `describe > describe > test`.
 * A file that fails outside its tests (it does not load, or a hook throws) is a failed case named after it.
 */
export function readVitest(json) {
  const cases = []
  for (const file of JSON.parse(json).testResults) {
    for (const each of file.assertionResults) {
      const outcome = ["passed", "failed"].includes(each.status) ? each.status : "skipped"
      cases.push({ name: [...each.ancestorTitles, each.title].join(" > "), outcome })
    }
    if (file.message) cases.push({ name: file.name.replace(/.*\//, ""), outcome: "failed" })
  }
  return cases
}

/** The output of `cargo test`: for documentation tests, and for everything where nextest is not installed. */
export function readCargo(output) {
  const outcomes = { ok: "passed", FAILED: "failed", ignored: "skipped" }
  return [...output.matchAll(/^test (.+) \.\.\. (ok|FAILED|ignored)\b.*$/gm)].map(([, name, outcome]) => ({
    name,
    outcome: outcomes[outcome],
  }))
}

/** The names in tests/known-failures.txt: one a line; `#` begins a comment line. */
export function readKnownFailures(text) {
  const lines = text.split("\n").map((line) => line.trim())
  return new Set(lines.filter((line) => line !== "" && !line.startsWith("#")))
}

function attribute(attributes, name) {
  const value = attributes.match(new RegExp(`(?:^|\\s)${name}="([^"]*)"`))?.[1] ?? ""
  const entities = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" }
  return value
    .replace(/&#(x[0-9a-f]+|\d+);/gi, (_, code) => String.fromCodePoint(Number(`0${code}`.replace(/^0(?=\d)/, ""))))
    .replace(/&(lt|gt|quot|apos|amp);/g, (_, entity) => entities[entity])
}
