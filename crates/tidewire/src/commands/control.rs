//! `tidewire control`: something that is said to all servers of a database.

use std::process::ExitCode;

use anyhow::Context as _;
use tidewire_client::Order;

use crate::cli::{ControlCommand, ControlFlags};

pub(crate) async fn run(flags: ControlFlags) -> anyhow::Result<ExitCode> {
    let order = match flags.command {
        ControlCommand::Reload => Order::Reload,
        ControlCommand::EmptyCaches => Order::EmptyCaches,
        ControlCommand::EndUser { user, host } => Order::EndUser { user, host },
        ControlCommand::EndConnection { connection_id } => Order::EndConnection { connection_id },
        ControlCommand::EndSubscription { live_id } => Order::EndSubscription { live_id },
    };
    let client = super::client(&flags.client)?;
    client.order(&order).await.context("cannot say this to the servers")?;
    eprintln!("Said to all servers.");
    Ok(ExitCode::SUCCESS)
}
