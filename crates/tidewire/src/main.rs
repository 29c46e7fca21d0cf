//! The `tidewire` binary: command line, configuration, wiring, telemetry, shutdown.
//!
//! - [`cli`]: what can be asked for; `main` parses it before anything is done
//! - [`config`]: where settings come from
//! - [`server`]: the life of a server, from its listener to its last request
//! - [`commands`]: everything else that can be asked for
//! - [`telemetry`]: what the process says about itself

mod cli;
mod commands;
mod config;
mod server;
mod telemetry;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Parser as _;

use cli::{Cli, Command, RestoreFlags};
use config::{Config, RawSettings};
use server::Mode;
use tidewire_deliver::Reload;
use tidewire_store::RestoreOptions;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before any library can install another one. It fails only where one is installed already.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let cli = Cli::parse();
    run(cli.command).unwrap_or_else(|error| {
        let broken_pipe = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
        if error.downcast_ref().is_some_and(broken_pipe) {
            // Whoever read our output has seen enough: `tidewire tail … | head`.
            return ExitCode::SUCCESS;
        }
        eprintln!("tidewire: {error:#}");
        if let Some(hint) = commands::hint(&error) {
            eprintln!("hint: {hint}");
        }
        ExitCode::FAILURE
    })
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Dev(flags) => serve(Mode::Dev, flags.given()),
        Command::Serve(flags) => serve(Mode::Serve, flags.given()),
        Command::Migrate(flags) => {
            let compat = flags.compat();
            let config = load(flags.store.given())?;
            telemetry::start(&config)?;
            block_on(commands::migrate::run(&config.settings, compat))
        }
        Command::Backup(flags) => {
            commands::backup::run(&load(flags.store.given())?.settings, &flags.file)
        }
        Command::Restore(flags) => {
            let RestoreFlags { file, replace, epoch, store } = flags;
            let config = load(store.given())?;
            telemetry::start(&config)?;
            let restore = RestoreOptions { replace, epoch };
            block_on(commands::restore::run(&config.settings, file.as_deref(), restore))
        }
        Command::Config(flags) if flags.default => commands::config::print_default(),
        Command::Config(flags) => commands::config::print_effective(&load(flags.server.given())?),
        Command::Publish(flags) => {
            let data = commands::publish::read(&flags.data)?;
            block_on(commands::publish::run(flags, data))
        }
        Command::Tail(flags) => {
            telemetry::start_for_client()?;
            block_on(commands::tail::run(flags))
        }
        Command::Sql(flags) => block_on(commands::sql::run(flags)),
        Command::Watch(flags) => block_on(commands::watch::run(flags)),
        Command::Unwatch(flags) => block_on(commands::watch::unwatch(flags)),
        Command::Capture(flags) => block_on(commands::capture::run(flags)),
        Command::Connections(flags) => block_on(commands::connections::run(flags)),
        Command::Queries(flags) => block_on(commands::queries::run(flags)),
        Command::Entities(flags) => block_on(commands::entities::run(flags)),
        Command::Doctor(flags) => block_on(commands::doctor::run(flags)),
        Command::Nodes(flags) => block_on(commands::nodes::run(flags)),
        Command::Groups(command) => block_on(commands::groups::run(command)),
        Command::Consume(flags) => {
            telemetry::start_for_client()?;
            block_on(commands::consume::run(flags))
        }
        Command::Keys(command) => block_on(commands::keys::run(command)),
        Command::Control(flags) => block_on(commands::control::run(flags)),
    }
}

fn serve(mode: Mode, given: RawSettings) -> anyhow::Result<ExitCode> {
    let config = load(given.clone())?;
    let again = move || match load(given.clone()) {
        Ok(config) => Ok(config.settings.tunable()),
        Err(problems) => Err(problems.to_string()),
    };
    let plan = server::Plan::new(mode, &config, Reload(Arc::new(again)))?;
    telemetry::start(&config)?;
    block_on(server::run(plan))
}

fn load(given: RawSettings) -> Result<Config, config::Problems> {
    config::load(given, std::env::vars_os(), Path::new("."))
}

fn block_on(work: impl Future<Output = anyhow::Result<ExitCode>>) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let result = runtime.block_on(work);
    // What was to be finished is finished; a thread that still blocks must not hold the exit up.
    runtime.shutdown_background();
    result
}
