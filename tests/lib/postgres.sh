# shellcheck shell=bash
# A private PostgreSQL cluster for one run of `./test`: in the run's own folder, on a free port of the loopback
# interface, gone when the run ends. Sourced by ./test.
#
# PostgreSQL refuses to run as root, so as root everything here runs as the user `postgres`.

pg_bin=      # the folder of initdb, postgres, pg_ctl
pg_folder=   # holds the data, the socket and the log; empty until there is a cluster to stop

# In the cluster's folder, because the user `postgres` may not be allowed into this one.
as_postgres() (
  cd "$pg_folder" || exit
  if ((EUID == 0)); then
    setpriv --reuid=postgres --regid=postgres --init-groups -- "$@"
  else
    "$@"
  fi
)

# Debian keeps each major version in a folder of its own and leaves the server's programs off the PATH.
find_postgres() {
  local initdb
  for initdb in $(printf '%s\n' /usr/lib/postgresql/*/bin/initdb | sort --version-sort --reverse); do
    if [[ -x $initdb ]]; then
      pg_bin=$(dirname "$initdb")
      return
    fi
  done
  return 1
}

require_postgres() {
  find_postgres && return
  ((EUID == 0)) || die "PostgreSQL is not installed. Run ./test as root once, or: apt-get install postgresql"
  headline "install PostgreSQL"
  apt-get update -q || die "apt-get could not update its lists"
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends postgresql ||
    die "apt-get could not install PostgreSQL"
  find_postgres || die "PostgreSQL was installed, but /usr/lib/postgresql/*/bin/initdb is missing"
}

# Below the range from which the system takes the ports of outgoing connections.
free_port() {
  local port
  while :; do
    port=$((20000 + RANDOM % 12000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
  done
  echo "$port"
}

# fsync stays on: the tests are about what survives.
write_settings() {
  cat >>"$pg_folder/data/postgresql.conf" <<EOF
listen_addresses = '127.0.0.1'
unix_socket_directories = '$pg_folder'
wal_level = logical
max_connections = 300
max_replication_slots = 120
max_wal_senders = 120
max_prepared_transactions = 0
EOF
}

# The servers that npm carries, besides the system's own: their packages are in tests/versions.
pg_versions=(14 16 17 18)

# fetch_versions: into tests/versions/node_modules. Newer versions of npm do not run a package's install script unless
# told to, so it is run here: it makes the links between shared libraries that a package cannot hold.
fetch_versions() {
  npm ci --prefix tests/versions --ignore-scripts --no-audit --no-fund || return
  local version
  for version in "${pg_versions[@]}"; do
    (cd "tests/versions/node_modules/postgres-$version" && node scripts/hydrate-symlinks.js) || return
  done
}

# use_version VERSION FOLDER: PostgreSQL of that version from here on. A copy, because the user `postgres` may not be
# allowed into this folder.
use_version() {
  cp -a "tests/versions/node_modules/postgres-$1/native" "$2" || return
  pg_bin="$2/bin"
}

# start_postgres FOLDER: exports what the tests need to find the cluster and to start their own.
start_postgres() {
  [[ -n $pg_bin ]] || require_postgres
  headline "start PostgreSQL from $pg_bin"
  mkdir "$1"
  ((EUID != 0)) || chown postgres: "$1"
  pg_folder=$1
  as_postgres "$pg_bin/initdb" --pgdata="$pg_folder/data" --username=postgres --auth=trust \
    --encoding=UTF8 --locale=C.UTF-8 --no-sync >"$pg_folder.log" 2>&1 ||
    die "initdb failed: $(cat "$pg_folder.log")"
  write_settings

  # Another process may take the port between the look and the start.
  local attempt port
  for attempt in 1 2 3; do
    port=$(free_port)
    if as_postgres "$pg_bin/pg_ctl" start --wait --silent --pgdata="$pg_folder/data" \
      --log="$pg_folder/log" --options="-p $port"; then
      export TIDEWIRE_TEST_DATABASE_URL="postgres://postgres@127.0.0.1:$port/postgres"
      export TIDEWIRE_TEST_PG_BIN=$pg_bin
      return
    fi
    echo "PostgreSQL did not start on port $port (attempt $attempt)" >&2
  done
  die "PostgreSQL does not start: $(tail -n 20 "$pg_folder/log")"
}

stop_postgres() {
  [[ -n $pg_folder && -f $pg_folder/data/postmaster.pid ]] || return 0
  as_postgres "$pg_bin/pg_ctl" stop --wait --silent --mode=immediate --pgdata="$pg_folder/data" || true
}
