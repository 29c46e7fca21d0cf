//! `tidewire control`: a message to all servers of a database.

use std::process::ExitCode;

use anyhow::Context as _;
use tidewire_client::ControlMessage;

use crate::cli::{ControlCommand, ControlFlags};

pub(crate) async fn run(flags: ControlFlags) -> anyhow::Result<ExitCode> {
    let order = match flags.command {
        ControlCommand::Reload => ControlMessage::Reload,
        ControlCommand::EmptyCaches => ControlMessage::EmptyCaches,
        ControlCommand::EndUser { user, host } => ControlMessage::EndUser { user, host },
        ControlCommand::EndConnection { connection_id } => {
            ControlMessage::EndConnection { connection_id }
        }
        ControlCommand::EndSubscription { live_id } => ControlMessage::EndSubscription { live_id },
    };
    let client = super::client(&flags.client)?;
    client.order(&order).await.context("cannot send this to the servers")?;
    eprintln!("Sent to all servers.");
    Ok(ExitCode::SUCCESS)
}
