//! A case as data: tables, queries, and everything that happens, so that it can be written down, cut
//! down and run again.

use serde::{Deserialize, Serialize};

use super::columns::{Sort, named};
use crate::who::for_database;

/// Tables, queries over them, and what happens.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Case {
    /// What it came from.
    pub(crate) seed: u64,
    pub(crate) sort: Sort,
    pub(crate) tables: Vec<TableSpec>,
    pub(crate) queries: Vec<Select>,
    pub(crate) steps: Vec<Step>,
}

/// A table, and what of it is seen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct TableSpec {
    pub(crate) name: String,
    /// By the names of [`super::columns`].
    pub(crate) columns: Vec<String>,
    pub(crate) key: Vec<String>,
    /// A condition on the rows that may be seen.
    pub(crate) rule: Option<String>,
    pub(crate) hidden: Vec<String>,
    /// A column, and the tenants whose rows may be seen.
    pub(crate) tenants: Option<Tenants>,
}

/// Whose rows may be seen.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Tenants {
    pub(crate) column: String,
    pub(crate) hosts: Vec<String>,
    pub(crate) shared: bool,
}

impl TableSpec {
    /// How it is made, under a name.
    pub(crate) fn create(&self, sort: Sort, what: &str) -> String {
        let column = |name: &String| {
            // A key of SQLite may be NULL, and then tells no rows apart, unless it is said.
            let stands = if self.key.contains(name) { " NOT NULL" } else { "" };
            format!("{name} {}{stands}", named(sort, name).sql)
        };
        let mut parts: Vec<String> = self.columns.iter().map(column).collect();
        if !self.key.is_empty() {
            parts.push(format!("PRIMARY KEY ({})", self.key.join(", ")));
        }
        format!("CREATE {what} {} ({})", self.name, parts.join(", "))
    }

    /// Columns that may be seen.
    pub(crate) fn visible(&self) -> Vec<&str> {
        let seen = self.columns.iter().filter(|name| !self.hidden.contains(name));
        seen.map(String::as_str).collect()
    }

    /// What holds of the rows that may be seen, as the database understands it.
    pub(crate) fn seen(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(rule) = &self.rule {
            parts.push(format!("({})", for_database(rule)));
        }
        if let Some(tenants) = &self.tenants {
            let hosts: Vec<String> = tenants.hosts.iter().map(|host| format!("'{host}'")).collect();
            let shared = match tenants.shared {
                true => format!(" OR {} IS NULL", tenants.column),
                false => String::new(),
            };
            parts.push(format!("({} IN ({}){shared})", tenants.column, hosts.join(", ")));
        }
        (!parts.is_empty()).then(|| parts.join(" AND "))
    }
}

/// How a query's rows are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Compare {
    /// Whatever their order.
    Rows,
    /// In their order.
    List,
    /// In their order by the tie-breakers that a window has; where it is run again the database
    /// chooses, and only how many there are is compared.
    Ties,
    /// Which rows they are is for the database to choose.
    Count,
}

/// A query in its parts, so that they can be left out.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Select {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) with: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) distinct: String,
    pub(crate) select: Vec<String>,
    pub(crate) from: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) conjuncts: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) group: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) having: Vec<String>,
    /// `UNION SELECT …`
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) set: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) order: Vec<String>,
    /// What orders rows that the query's own order leaves equal: not the client's, and put to the
    /// database only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ties: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) offset: Option<u32>,
    pub(crate) compare: Compare,
    /// What is in it.
    #[serde(default)]
    pub(crate) constructs: Vec<String>,
}

/// What opens and closes a parameter in a part: its value as JSON, and as SQL.
const PARAMETER: (char, char, char) = ('⟦', '¦', '⟧');

/// Marks a value as a parameter.
pub(crate) fn parameter(json: &str, literal: &str) -> String {
    format!("{}{json}{}{literal}{}", PARAMETER.0, PARAMETER.1, PARAMETER.2)
}

impl Select {
    /// As a client sends it, with its parameters' JSON.
    pub(crate) fn client(&self, sort: Sort) -> (String, Vec<String>) {
        let mut params = Vec::new();
        let text = fill(&self.text(&self.order), &mut |json, _| {
            params.push(json.to_owned());
            match sort {
                Sort::Postgres => format!("${}", params.len()),
                Sort::Sqlite => format!("?{}", params.len()),
            }
        });
        (text, params)
    }

    /// As it is put to the database itself.
    pub(crate) fn truth(&self) -> String {
        let order: Vec<String> = self.order.iter().chain(&self.ties).cloned().collect();
        for_database(&fill(&self.text(&order), &mut |_, literal| literal.to_owned()))
    }

    fn text(&self, order: &[String]) -> String {
        let mut text = String::new();
        let mut add = |word: &str, rest: &str| {
            if !rest.is_empty() {
                let space = if text.is_empty() { "" } else { " " };
                text.push_str(&format!("{space}{word}{rest}"));
            }
        };
        add("WITH ", &self.with);
        let distinct = if self.distinct.is_empty() { "" } else { " " };
        add("", &format!("SELECT {}{distinct}{}", self.distinct, self.select.join(", ")));
        add("FROM ", &self.from);
        add("WHERE ", &self.conjuncts.join(" AND "));
        add("GROUP BY ", &self.group.join(", "));
        add("HAVING ", &self.having.join(" AND "));
        add("", &self.set);
        add("ORDER BY ", &order.join(", "));
        add("LIMIT ", &self.limit.map_or(String::new(), |limit| limit.to_string()));
        add("OFFSET ", &self.offset.map_or(String::new(), |offset| offset.to_string()));
        text
    }
}

/// Puts something in the place of each parameter.
fn fill(text: &str, put: &mut dyn FnMut(&str, &str) -> String) -> String {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(PARAMETER.0) {
        let (inside, behind) = after.split_once(PARAMETER.2).expect("a parameter is closed");
        let (json, literal) = inside.split_once(PARAMETER.1).expect("a parameter has two forms");
        filled.push_str(before);
        filled.push_str(&put(json, literal));
        rest = behind;
    }
    filled + rest
}

/// Something that happens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Step {
    /// A session begins a transaction.
    Begin(usize),
    /// It runs a statement, in its transaction or by itself.
    Run(usize, String),
    /// It sets a savepoint.
    Savepoint(usize),
    /// It goes back to it.
    Back(usize),
    Commit(usize),
    Abort(usize),
    /// Someone follows a query.
    Subscribe(usize),
    /// The one who did so first leaves, and may come back.
    Leave(usize),
    /// Someone who left comes back with what they had.
    Return(usize),
    /// The one who did so first has lost what was told.
    Again(usize),
    /// The engine sees so many events of the log.
    See(usize),
    /// So many reads are made, from a place in the list of those that wait.
    Read(usize, usize),
    /// So many of those that were made are answered.
    Answer(usize, usize),
    /// Those that were answered are settled.
    Settle,
    /// Whoever waits for that has waited long enough.
    Impatient,
}

#[test]
fn a_parameter_is_a_value_to_the_database() {
    let select = Select {
        with: String::new(),
        distinct: String::new(),
        select: vec!["a".into()],
        from: "t".into(),
        conjuncts: vec![
            format!("a = {}", parameter("\"x\"", "'x'")),
            format!("b > {}", parameter("5", "5")),
            "c = CURRENT_USER()".into(),
        ],
        group: Vec::new(),
        having: Vec::new(),
        set: String::new(),
        order: vec!["a".into()],
        ties: vec!["b".into()],
        limit: Some(2),
        offset: None,
        compare: Compare::List,
        constructs: Vec::new(),
    };
    let (text, params) = select.client(Sort::Postgres);
    assert_eq!(
        text,
        "SELECT a FROM t WHERE a = $1 AND b > $2 AND c = CURRENT_USER() ORDER BY a LIMIT 2"
    );
    assert_eq!(params, ["\"x\"", "5"]);
    let truth = "SELECT a FROM t WHERE a = 'x' AND b > 5 AND c = 'ab' ORDER BY a, b LIMIT 2";
    assert_eq!(select.truth(), truth);
}
