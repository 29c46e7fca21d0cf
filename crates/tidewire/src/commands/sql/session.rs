//! SQL line by line, with a stored history.

use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Config, Editor, Helper};
use tidewire_client::Client;

use super::entry::{self, Entry};
use super::grid::Layout;
use super::{Form, describe, explain, print};

/// Entries that the history keeps.
const HISTORY_MAX: usize = 10_000;

/// As wide as a terminal is taken to be that does not say.
const SCREEN_WIDTH: usize = 100;

const HELP: &str = "\
SQL ends with a semicolon and may take several lines; several statements are one transaction.
  \\d            the tables there are
  \\d TABLE      the columns of a table
  \\w            the watched tables
  \\x            a line for each column, or tables again
  \\?            this
  \\q            the end, as is Ctrl-D; Ctrl-C gives up what is typed
";

/// Decides whether an entry goes on in the next line.
struct Lines;

impl Validator for Lines {
    fn validate(&self, context: &mut ValidationContext) -> rustyline::Result<ValidationResult> {
        Ok(match entry::is_complete(context.input()) {
            true => ValidationResult::Valid(None),
            false => ValidationResult::Incomplete,
        })
    }
}

impl Completer for Lines {
    type Candidate = String;
}

impl Hinter for Lines {
    type Hint = String;
}

impl Highlighter for Lines {}

impl Helper for Lines {}

/// Asks, runs and prints until the person has enough.
pub(super) async fn run(client: &Client, mut form: Form) -> anyhow::Result<ExitCode> {
    let database = client.database().await.context("cannot reach the server")?;
    let config = Config::builder()
        .max_history_size(HISTORY_MAX)
        .and_then(|config| config.history_ignore_dups(true))
        .context("cannot set up the line editor")?
        .auto_add_history(true)
        .build();
    let mut editor: Editor<Lines, FileHistory> =
        Editor::with_config(config).context("cannot use the terminal")?;
    editor.set_helper(Some(Lines));
    let history = history_file();
    if let Some(file) = &history {
        // A history that cannot be read is no reason not to begin.
        let _ = editor.load_history(file);
    }
    eprintln!("{database}. \\? is help, \\q the end.");
    loop {
        let line = tokio::task::block_in_place(|| editor.readline("tidewire> "));
        let text = match line {
            Ok(text) => text,
            Err(ReadlineError::Interrupted) => continue,
            Err(ReadlineError::Eof) => break,
            Err(error) => return Err(error).context("cannot read from the terminal"),
        };
        if let Some(file) = &history {
            let _ = editor.append_history(file);
        }
        let (shown, result) = match entry::read(&text) {
            Entry::Nothing => continue,
            Entry::Quit => break,
            Entry::Help => {
                eprint!("{HELP}");
                continue;
            }
            Entry::Expand => {
                form = match form {
                    Form::Drawn(Layout::Records) => Form::Drawn(Layout::Fitting(0)),
                    _ => Form::Drawn(Layout::Records),
                };
                continue;
            }
            Entry::Unknown(command) => {
                eprintln!("There is no command {command}; \\? lists the commands.");
                continue;
            }
            Entry::Watches => {
                watches(client).await;
                continue;
            }
            Entry::Describe(table) => ("", describe(client, table).await),
            Entry::Sql(sql) => (sql, client.sql(sql, &[]).await),
        };
        match result {
            Ok(answer) => {
                let mut out = io::stdout().lock();
                print(&mut out, &answer, on_screen(form))?;
                out.flush()?;
            }
            Err(error) => eprintln!("{}", explain(shown, &error)),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The form as the terminal is now: it may have another width than before.
fn on_screen(form: Form) -> Form {
    match form {
        Form::Drawn(Layout::Fitting(_)) => Form::Drawn(Layout::Fitting(screen_width())),
        other => other,
    }
}

async fn watches(client: &Client) {
    match client.watches().await {
        Ok(watches) if watches.is_empty() => eprintln!("No table is watched."),
        Ok(watches) => {
            for watch in watches {
                eprintln!("{}: {} changes as {}", watch.table, watch.events, watch.stream);
            }
        }
        Err(error) => eprintln!("{error}"),
    }
}

/// Columns of text that the terminal has.
pub(super) fn screen_width() -> usize {
    let told = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
    told.filter(|width| *width > 0).unwrap_or(SCREEN_WIDTH)
}

/// Where the history is kept, for nobody else to read: SQL may hold anything. None if there is no such
/// place.
fn history_file() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = set("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(set("HOME")?).join(".local/state")))?;
    let folder = state.join("tidewire");
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder).ok()?;
    let file = folder.join("sql_history");
    std::fs::OpenOptions::new().create(true).append(true).mode(0o600).open(&file).ok()?;
    Some(file)
}
