//! Reading `access_matrix.md`: its tables as rows, each with what every credential gets.

use reqwest::Method;

const TEXT: &str = include_str!("../access_matrix.md");

/// The columns of credentials, in the order of the tables. `wake` is in one table only.
pub(crate) const COLUMNS: [&str; 14] = [
    "none",
    "wrong",
    "expired",
    "revoked",
    "foreign",
    "user",
    "elsewhere",
    "reader",
    "writer",
    "service",
    "observer",
    "worker",
    "admin",
    "wake",
];

/// One request, and what becomes of it.
#[derive(Debug)]
pub(crate) struct Row {
    /// As the table names it.
    pub(crate) name: String,
    pub(crate) verb: Verb,
    pub(crate) path: String,
    /// Headers, and a body or messages.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) texts: Vec<String>,
    /// For each column that the table has.
    pub(crate) cells: Vec<(&'static str, Cell)>,
    /// Codes of statuses, where they are not the usual ones: for all columns, or for one.
    pub(crate) special: Vec<(u16, String, Option<String>)>,
}

/// How a request is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verb {
    Http(Method),
    WebSocket,
}

/// What one kind of credential gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) status: u16,
    /// The stream's content.
    pub(crate) shown: bool,
    /// Something is different afterwards.
    pub(crate) changes: bool,
}

impl Cell {
    pub(crate) fn refused(self) -> bool {
        self.status >= 400
    }
}

impl Row {
    /// The path without a query, and without names in its braces: all rows of one route have the same.
    pub(crate) fn route(&self) -> String {
        let path = self.path.split('?').next().unwrap_or_default();
        let name =
            |part: &str| if part.starts_with('{') { "{}".to_owned() } else { part.to_owned() };
        path.split('/').map(name).collect::<Vec<_>>().join("/")
    }

    /// Whether the row names this, in braces.
    pub(crate) fn uses(&self, thing: &str) -> bool {
        let mut headers = self.headers.iter().map(|(_, value)| value);
        let named = |text: &String| text.contains(&format!("{{{thing}}}"));
        named(&self.path) || headers.any(named) || self.texts.iter().any(named)
    }

    /// The code that a refusal with this status has for a column.
    pub(crate) fn code(&self, column: &str, status: u16) -> &str {
        let mut special = self.special.iter().filter(|(special, ..)| *special == status);
        let is_its_own = |of: &Option<String>| of.as_deref().is_none_or(|of| of == column);
        if let Some((_, code, _)) = special.find(|(_, _, of)| is_its_own(of)) {
            return code;
        }
        match (status, column) {
            (401, "expired") => "credential_expired",
            (401, "revoked") => "key_revoked",
            (401, _) => "unauthorized",
            (403, _) => "forbidden",
            _ => panic!("{}: what is the code of {status}?", self.name),
        }
    }

    /// Whether a client of a WebSocket that is told this code is also told to go.
    pub(crate) fn closes(code: &str) -> bool {
        !["forbidden", "read_rule_missing", "stream_not_found", "table_not_found"].contains(&code)
    }
}

/// All rows of all tables.
pub(crate) fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    let mut head: Vec<&str> = Vec::new();
    for line in TEXT.lines() {
        let Some(inside) = line.strip_prefix('|').and_then(|line| line.strip_suffix('|')) else {
            head.clear();
            continue;
        };
        let cells: Vec<&str> = inside.split('|').map(str::trim).collect();
        if head.is_empty() {
            head = cells;
        } else if head[0] == "request" && !cells[0].starts_with('-') {
            assert_eq!(cells.len(), head.len(), "{line}");
            rows.push(row(&head, &cells));
        }
    }
    assert!(rows.len() > 40, "the matrix has more rows than {}", rows.len());
    rows
}

fn row(head: &[&str], cells: &[&str]) -> Row {
    let titled = |title: &str| head.iter().position(|other| *other == title).map(|at| cells[at]);
    let name = cells[0].trim_matches('`').to_owned();
    let (verb, path) = name.split_once(' ').unwrap_or_else(|| panic!("no request: {name}"));
    let verb = match verb {
        "WS" => Verb::WebSocket,
        method => Verb::Http(method.parse().expect("a method")),
    };
    let (mut headers, mut texts) = (Vec::new(), Vec::new());
    let spans = titled("with").expect("what goes with it").split('`').map(str::trim);
    for span in spans.filter(|span| !span.is_empty()) {
        match span.split_once(": ") {
            Some((name, value)) if !span.starts_with(['{', '[']) => {
                headers.push((name.to_owned(), value.to_owned()));
            }
            _ => texts.push(span.to_owned()),
        }
    }
    let read = |column: &'static str| {
        let text = titled(column);
        assert!(text.is_some() || column == "wake", "{name}: no column {column}");
        text.map(|text| (column, cell(text)))
    };
    let special = titled("special").expect("codes").split(", ");
    let special = special.filter_map(|one| one.split_once(' ')).map(|(status, code)| {
        let (code, of) = match code.split_once(' ') {
            Some((code, of)) => (code, Some(of.trim_matches(['(', ')']).to_owned())),
            None => (code, None),
        };
        (status.parse().expect("a status"), code.trim_matches('`').to_owned(), of)
    });
    let special = special.collect();
    let (cells, path) = (COLUMNS.into_iter().filter_map(read).collect(), path.to_owned());
    Row { verb, path, headers, texts, cells, special, name }
}

fn cell(text: &str) -> Cell {
    let plain = text.trim_matches('*');
    let (changes, shown) = (plain != text, plain == "shown");
    let status = if shown { 200 } else { plain.parse().unwrap_or_else(|_| panic!("{text:?}")) };
    Cell { status, shown, changes }
}

/// A row whose every cell is a refusal would pass if its request were malformed.
#[test]
fn someone_may_do_what_each_row_asks_for() {
    for row in rows() {
        // An administrator is understood, whatever the answer is.
        let understood = |(column, cell): &(&str, Cell)| {
            let special = row.special.iter().any(|(status, ..)| *status == cell.status);
            !cell.refused() || (*column == "admin" && special)
        };
        assert!(row.cells.iter().any(understood), "{}: nobody succeeds", row.name);
    }
}
