//! The flags of `tidewire publish` and `tidewire tail`.

use clap::Args;
use tidewire_client::ReadFrom;

use super::ClientFlags;

/// What to append.
#[derive(Debug, Args)]
pub(crate) struct PublishFlags {
    /// The stream, such as doc/123
    pub(crate) stream: String,
    /// The message; - or nothing reads it from the standard input
    #[arg(default_value = "-", hide_default_value = true)]
    pub(crate) data: String,
    /// The data is JSON; the same as --content-type application/json
    #[arg(long, conflicts_with = "content_type")]
    pub(crate) json: bool,
    /// The content type [default: the stream's; for a new stream application/json if the data is an
    /// object or an array, else text/plain]
    #[arg(long, value_name = "TYPE")]
    pub(crate) content_type: Option<String>,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// What to follow.
#[derive(Debug, Args)]
pub(crate) struct TailFlags {
    /// The positional argument.
    #[arg(hide = true, value_parser = not_a_name)]
    name: Option<String>,
    /// The stream, such as doc/123; of several, each line begins with the stream's name and a tab
    #[arg(long = "stream", value_name = "NAME", required_unless_present = "tables")]
    pub(crate) streams: Vec<String>,
    /// A watched table, such as orders: prints each change of a row as it is committed
    #[arg(long = "table", value_name = "NAME")]
    pub(crate) tables: Vec<String>,
    /// Of tables' rows, those that satisfy a condition: "status = 'open' AND total > 100"
    #[arg(long = "where", value_name = "CONDITION", requires = "tables")]
    pub(crate) filter: Option<String>,
    /// Where to begin: start, now, or after an offset
    #[arg(long, value_name = "start|now|OFFSET", default_value = "start", value_parser = read_from)]
    pub(crate) from: ReadFrom,
    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

fn not_a_name(name: &str) -> Result<String, String> {
    Err(format!("say what it is: --stream {name}, or --table {name}"))
}

fn read_from(text: &str) -> Result<ReadFrom, String> {
    match text {
        "start" | "-1" => Ok(ReadFrom::Start),
        "now" => Ok(ReadFrom::Now),
        "" => Err("give start, now, or an offset".to_owned()),
        offset => Ok(ReadFrom::Offset(offset.to_owned())),
    }
}
