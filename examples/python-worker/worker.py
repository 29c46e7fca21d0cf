"""A worker of a consumer group, with nothing but Python: counts the events of each host and user in a table.

What it counts goes into the ack, so it is kept with the group's progress or not at all: once, whatever dies when.
"""

import contextlib
import http.client
import json
import os
import random
import signal
import threading
import urllib.error
import urllib.parse
import urllib.request

URL = os.environ.get("TIDEWIRE_URL", "http://127.0.0.1:4437")
GROUP = os.environ.get("TIDEWIRE_GROUP", "totals")
MEMBER = os.environ.get("TIDEWIRE_MEMBER", f"python-{os.getpid()}")
LEASE_MS, WAIT_MS, BATCH_SIZE = 30_000, 5_000, 100
CAREFUL = 100  # batches of one transaction each that are taken after one whose SQL could not be run
FAILED_MAX = 1_000  # keys that one nack names; the others come again, and can be named then
COUNT = """INSERT INTO totals (host_id, user_id, events) VALUES ($1, $2, $3)
    ON CONFLICT (host_id, user_id) DO UPDATE SET events = totals.events + excluded.events"""

stopping = threading.Event()


class Dead(Exception):
    """Raised by a handler for events that no repetition will help."""


class Refused(OSError):
    """The server's answer is an error. A proxy's answer may not be JSON; it counts as a transient error."""

    def __init__(self, error):
        try:
            problem = json.loads(error.read())
        except (OSError, ValueError, http.client.HTTPException):
            problem = None
        if not isinstance(problem, dict):
            problem = {}
        super().__init__(problem.get("detail") or f"status {error.code}")
        self.code = problem.get("code") or ""
        self.temporary = problem.get("temporary", error.code in (408, 425, 429) or error.code >= 500)


def handle(host_id, user_id, events):
    """Handles the events of one host and user, in order. Returns SQL to run in the ack's transaction."""
    print(f"{len(events)} events of {host_id}/{user_id} up to {events[-1]['offset']}", flush=True)
    return [{"sql": COUNT, "params": [host_id or "", user_id or "", len(events)]}]


def post(act, document):
    """Says something to the group. None: there was no work in time."""
    headers = {"content-type": "application/json"}
    if token := os.environ.get("TIDEWIRE_TOKEN"):
        headers["authorization"] = f"Bearer {token}"
    url = f"{URL}/v1/groups/{urllib.parse.quote(GROUP, safe='')}/{act}"
    request = urllib.request.Request(url, json.dumps(document).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            answer = response.read()
    except urllib.error.HTTPError as error:
        raise Refused(error) from None
    except http.client.HTTPException as error:
        raise OSError(f"the answer broke off: {error!r}") from None
    try:
        return json.loads(answer or "null")
    except ValueError:
        raise OSError("the answer is not JSON") from None


@contextlib.contextmanager
def held(token):
    """Extends the lease while the work goes on. If it is lost, the ack will say so."""
    done = threading.Event()

    def extend():
        while not done.wait(LEASE_MS / 3_000):
            with contextlib.suppress(OSError):
                post("extend", {"token": token, "lease_ms": LEASE_MS})

    thread = threading.Thread(target=extend)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def work_off(batch, alone):
    """Handles a batch key by key, and says how it went. The first key that fails ends it.

    Returns whether the SQL, if it came to that, could be run.
    """
    statements = []
    with held(batch["token"]):
        for key in batch["groups"]:
            try:
                statements += handle(key["host_id"], key["user_id"], key["events"])
            except Exception as error:  # whatever it is, the batch must be given back
                give_back(batch, [key], repr(error), "dead" if isinstance(error, Dead) else "retry")
                return True
        try:
            post("ack", {"token": batch["token"], "sql": statements})
            return True
        except Refused as error:
            if not error.code.startswith("sql_"):
                raise
            print(error, flush=True)
            # Nothing was kept. Whose SQL it was is not said: unless this is one transaction alone, nobody is blamed.
            blamed = batch["groups"] if alone and not error.temporary else []
            give_back(batch, blamed, str(error), "retry")
            return False


def give_back(batch, keys, error, verdict):
    """Has the batch handed out again. Events of these keys are set aside if they have failed too often."""
    failed = [
        {"host_id": key["host_id"], "user_id": key["user_id"], "error": error[:1_000], "verdict": verdict}
        for key in keys[:FAILED_MAX]
    ]
    post("nack", {"token": batch["token"], "failed": failed})


def main():
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    failures = careful = 0
    while not stopping.is_set():
        try:
            size = 1 if careful else BATCH_SIZE
            claim = {"member": MEMBER, "batch_size": size, "lease_ms": LEASE_MS, "wait_ms": WAIT_MS}
            if batch := post("claim", claim):
                careful = max(0, careful - 1) if work_off(batch, alone=size == 1) else CAREFUL
            failures = 0
        except OSError as error:
            refused = isinstance(error, Refused)
            if refused and error.code == "lease_lost":
                continue  # that batch is another's; the next may be ours
            print(error, flush=True)
            if refused and not error.temporary and error.code != "group_stopped":
                raise SystemExit(1) from None
            failures += 1
            stopping.wait(random.uniform(0, min(10, 0.2 * 2 ** min(failures, 10))))


if __name__ == "__main__":
    main()
