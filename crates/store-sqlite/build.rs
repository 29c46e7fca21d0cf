//! Says clearly, before anything is compiled, that SQLite would lack the hook that capture needs.
//! Without this the build would end in an undefined symbol.

const FLAGS: &str = "LIBSQLITE3_FLAGS";
const HOOK: &str = "-DSQLITE_ENABLE_PREUPDATE_HOOK";

fn main() {
    println!("cargo::rerun-if-env-changed={FLAGS}");
    if !std::env::var(FLAGS).unwrap_or_default().contains(HOOK) {
        println!(
            "cargo::error=SQLite must be compiled with its preupdate hook, by which Tidewire sees \
             the changes of rows. `cargo build` in the repository does that, by .cargo/config.toml; \
             `cargo install` does not read that file: run it with {FLAGS}=\"{HOOK}\" in the environment"
        );
    }
}
