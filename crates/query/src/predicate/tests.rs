//! Predicates as a whole, by example. That they agree with real databases is tested in `tests/oracle`.

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::*;
use crate::table::{Column, Dialect};

struct Anna;

impl Caller for Anna {
    fn user_id(&self) -> Option<&str> {
        Some("anna")
    }

    fn host_id(&self) -> Option<&str> {
        Some("7")
    }

    fn claim(&self, name: &str) -> Option<Json> {
        match name {
            "role" => Some(json!("admin")),
            "team" => Some(json!(42)),
            "beta" => Some(json!(true)),
            "words" => Some(json!(["paid", "it's", null])),
            "names" => Some(json!(["Bo", "Al"])),
            "numbers" => Some(json!([4, 5])),
            "nothing" => Some(json!([])),
            _ => None,
        }
    }
}

fn table(dialect: Dialect, columns: &[(&str, &str, &str)]) -> Table {
    let column = |(name, type_name, collation): &(&str, &str, &str)| Column {
        name: (*name).to_owned(),
        type_name: (*type_name).to_owned(),
        collation: (!collation.is_empty()).then(|| (*collation).to_owned()),
    };
    Table { dialect, columns: columns.iter().map(column).collect() }
}

fn orders() -> Table {
    table(
        Dialect::Postgres,
        &[
            ("id", "int8", ""),
            ("small", "int2", ""),
            ("status", "text", "en_US.utf8"),
            ("code", "varchar", "C"),
            ("label", "text", "\"app\".\"nocase\""),
            ("fixed", "bpchar", "default"),
            ("price", "numeric", ""),
            ("ratio", "float8", ""),
            ("single", "float4", ""),
            ("active", "bool", ""),
            ("owner", "uuid", ""),
            ("day", "date", ""),
            ("at", "timestamptz", ""),
            ("moment", "timestamp", ""),
            ("hour", "time", ""),
            ("bytes", "bytea", ""),
            ("mood", "enum mood", ""),
            ("doc", "jsonb", ""),
            ("tags", "_text", ""),
            ("nick", "citext", ""),
            ("email", "email", ""),
            ("span", "interval", ""),
            ("Mixed", "int4", ""),
            ("user", "text", ""),
        ],
    )
}

fn things() -> Table {
    table(
        Dialect::Sqlite,
        &[
            ("id", "INTEGER", ""),
            ("name", "TEXT", ""),
            ("nick", "VARCHAR(20)", "NOCASE"),
            ("word", "TEXT", "RTRIM"),
            ("price", "REAL", ""),
            ("seen", "DATETIME", ""),
            ("data", "BLOB", ""),
            ("free", "", ""),
            ("odd", "TEXT", "MINE"),
        ],
    )
}

fn test(table: &Table, condition: &str, row: &Json) -> Result<Truth, Unsure> {
    let predicate = Predicate::parse(condition, table, &Anna)
        .unwrap_or_else(|refusal| panic!("{condition}: {refusal:?}"));
    let image = row.to_string();
    predicate.test(&Row::parse(image.as_bytes()).expect("an object"))
}

#[test]
fn postgres_conditions_are_what_the_database_says() {
    let row = json!({
        "id": 9_007_199_254_740_993_i64, "small": 5, "status": "paid", "code": "b", "fixed": "ab   ",
        "price": 10.50, "ratio": 0.1, "single": 0.1, "active": true, "label": "x",
        "owner": "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "day": "2024-02-29",
        "at": "2024-02-29T10:00:00+00:00", "moment": "2024-02-29T10:00:00", "hour": "10:00:00",
        "bytes": "AP8=", "mood": "glad", "doc": {}, "tags": null, "nick": null, "span": "1 day",
        "Mixed": null, "user": "anna",
    });
    for (condition, expected) in [
        ("id = 9007199254740993", Truth::True),
        ("id = 9007199254740992", Truth::False),
        ("id > 9007199254740992.5", Truth::True),
        ("-5 < small AND small >= '5'", Truth::True),
        ("small IN (1, 2.5, '5')", Truth::True),
        ("small NOT IN (1, NULL)", Truth::Unknown),
        ("small NOT IN (5, NULL)", Truth::False),
        ("small BETWEEN 1 AND 5", Truth::True),
        ("small NOT BETWEEN 1 AND 5", Truth::False),
        ("status = 'paid'", Truth::True),
        ("status <> 'open' AND NOT status LIKE '%x'", Truth::True),
        ("status LIKE 'p_i%'", Truth::True),
        ("status COLLATE \"C\" ILIKE 'PA%'", Truth::True),
        ("status COLLATE \"C\" < 'q'", Truth::True),
        ("label COLLATE \"C\" = 'X'", Truth::False),
        ("code < 'c'", Truth::True),
        ("fixed = 'ab'", Truth::True),
        ("fixed LIKE 'ab'", Truth::False),
        ("price = 10.5", Truth::True),
        ("price < 10.50000000000000000000000000001", Truth::True),
        ("price < 'NaN'", Truth::True),
        ("ratio = 0.1", Truth::True),
        ("single = 0.1", Truth::False),
        ("single = '0.1'", Truth::True),
        ("active", Truth::True),
        ("NOT active IS TRUE", Truth::False),
        ("active = 'yes'", Truth::True),
        ("owner = 'A0EEBC999C0B4EF8BB6D6BB9BD380A11'::uuid", Truth::True),
        ("day = date '2024-02-29' AND day < timestamp '2024-02-29 00:01'", Truth::True),
        ("at = '2024-02-29 12:00+02'", Truth::True),
        ("at > timestamptz '2024-02-29T10:00:00.000001Z'", Truth::False),
        ("moment >= '2024-02-29' AND hour < '10:00:01'", Truth::True),
        ("bytes = '\\x00ff' AND bytes > '\\x00'", Truth::True),
        ("mood IN ('glad', 'sad')", Truth::True),
        ("tags IS NULL AND nick IS NULL AND span IS NOT NULL", Truth::True),
        ("\"Mixed\" = 1", Truth::Unknown),
        ("(\"Mixed\" = 1) IS UNKNOWN", Truth::True),
        ("(\"Mixed\" = 1) IS NOT TRUE", Truth::True),
        ("\"Mixed\" IS DISTINCT FROM 1", Truth::True),
        ("\"Mixed\" IS NOT DISTINCT FROM NULL", Truth::True),
        ("\"Mixed\" = 1 OR small = 5", Truth::True),
        ("\"Mixed\" = 1 AND small = 6", Truth::False),
        ("id = small", Truth::False),
        ("small < price", Truth::True),
        ("\"user\" = auth.user_id() AND CURRENT_USER() = 'anna'", Truth::True),
        ("small = auth.host_id()", Truth::False),
        ("auth.claim('role') = 'admin' OR small = 6", Truth::True),
        ("auth.claim('team')::int = 42 AND auth.claim('beta') = 'true'", Truth::True),
        ("status = auth.claim('none')", Truth::Unknown),
        ("status = ANY(auth.claim('words')) AND status IN (auth.claim('words'))", Truth::True),
        ("status = SOME(auth.claim('words')::text[])", Truth::True),
        ("status <> ALL(auth.claim('words'))", Truth::False),
        ("code = ANY(auth.claim('words'))", Truth::Unknown),
        ("code NOT IN (auth.claim('names'), 'x')", Truth::True),
        (
            "small = ANY(auth.claim('numbers')) AND price IN (10.5, auth.claim('numbers'))",
            Truth::True,
        ),
        ("status = ANY(auth.claim('nothing')) OR status IN (auth.claim('nothing'))", Truth::False),
        (
            "\"Mixed\" <> ALL(auth.claim('nothing')) AND \"Mixed\" NOT IN (auth.claim('nothing'))",
            Truth::True,
        ),
        ("status = ANY(auth.claim('none'))", Truth::Unknown),
        ("status <> ALL(auth.claim('none'))", Truth::Unknown),
        (
            "'admin' = ANY(auth.claim('role')) AND auth.claim('role') = ANY(auth.claim('role'))",
            Truth::True,
        ),
        (
            "small = ANY('{1,5}') AND small = ANY('{1,5}'::int[]) AND small <> ALL('{}')",
            Truth::True,
        ),
        ("1 = 1.0 AND 'a' = 'a' AND NULL IS NULL", Truth::True),
    ] {
        assert_eq!(test(&orders(), condition, &row), Ok(expected), "{condition}");
    }
}

#[test]
fn sqlite_conditions_are_what_the_database_says() {
    let row = json!({
        "id": 5, "name": "Bo", "nick": "Bo", "word": "w  ", "price": 2.5, "seen": "2024-01-02",
        "data": null, "free": null, "odd": "x",
    });
    for (condition, expected) in [
        ("id = 5 AND id == 5.0 AND id = '5' AND id = ' 5.0 '", Truth::True),
        ("id < 'a-b' AND id > 4.9", Truth::True),
        ("ID IN (1, '5')", Truth::True),
        ("id IN ()", Truth::False),
        ("id = ANY(auth.claim('numbers')) AND name = ANY(auth.claim('names'))", Truth::True),
        ("id IN (auth.claim('numbers'), 7) AND name IN (auth.claim('names'))", Truth::True),
        ("id <> ALL(auth.claim('numbers'))", Truth::False),
        ("id NOT IN (auth.claim('nothing')) AND id <> ALL(auth.claim('nothing'))", Truth::True),
        ("id = ANY(auth.claim('nothing'))", Truth::False),
        ("name = ANY(auth.claim('none'))", Truth::Unknown),
        ("name = ANY(auth.claim('words'))", Truth::Unknown),
        ("id", Truth::True),
        ("id IS NOT TRUE", Truth::False),
        ("name = 'bo'", Truth::False),
        ("name LIKE 'bO'", Truth::True),
        ("name COLLATE NOCASE = 'bo'", Truth::True),
        ("nick = 'bO' AND nick COLLATE BINARY <> 'bO'", Truth::True),
        ("word = 'w'", Truth::True),
        ("name < 5", Truth::False),
        ("price > 2 AND price = 2.5", Truth::True),
        ("seen >= '2024-01-01'", Truth::True),
        ("data IS NULL AND [free] IS NULL AND `odd` NOTNULL", Truth::True),
        ("name LIKE 'b%' ESCAPE '!'", Truth::True),
        ("id = true", Truth::False),
        ("name = nick", Truth::True),
        ("id > price", Truth::True),
        ("name = auth.user_id() OR id = auth.host_id()", Truth::False),
    ] {
        assert_eq!(test(&things(), condition, &row), Ok(expected), "{condition}");
    }
}

#[test]
fn what_cannot_be_exact_is_refused() {
    let (orders, things) = (orders(), things());
    for (table, condition, code, position) in [
        (&orders, "status < 'q'", "comparison_not_exact", 1),
        (&orders, "status ILIKE 'q'", "comparison_not_exact", 1),
        (&orders, "active AND label = 'q'", "comparison_not_exact", 12),
        (&orders, "nick = 'q'", "comparison_not_exact", 1),
        (&orders, "mood < 'glad'", "comparison_not_exact", 1),
        (&orders, "doc = '{}'", "comparison_not_exact", 1),
        (&orders, "doc IS NULL", "comparison_not_exact", 1),
        (&orders, "email = 'a'", "comparison_not_exact", 1),
        (&orders, "tags = '{}'", "comparison_not_exact", 1),
        (&orders, "span < '1 day'", "comparison_not_exact", 1),
        (&orders, "single IN (0.1)", "comparison_not_exact", 12),
        (&orders, "ratio = price", "comparison_not_exact", 1),
        (&orders, "at > '2024-01-01 10:00'", "value_not_of_type", 1),
        (&orders, "at > '2024-01-01'", "value_not_of_type", 1),
        (&orders, "day > '1.2.2024'", "value_not_of_type", 1),
        (&orders, "small = '70000'", "value_not_of_type", 1),
        (&orders, "status = 5", "value_not_of_type", 1),
        (&orders, "id = 5::float8", "value_not_of_type", 1),
        (&orders, "owner = 'x'", "value_not_of_type", 1),
        (&orders, "small = auth.user_id()", "value_not_of_type", 1),
        (&orders, "missing = 1", "column_not_found", 1),
        (&orders, "Mixed = 1", "column_not_found", 1),
        (&orders, "lower(status) = 'x'", "predicate_not_supported", 1),
        (&orders, "small + 1 = 2", "predicate_not_supported", 1),
        (&orders, "status = user", "predicate_not_supported", 10),
        (&orders, "status = current_user", "predicate_not_supported", 10),
        (&orders, "small = (SELECT 1)", "predicate_not_supported", 10),
        (&orders, "at::date = '2024-01-01'", "predicate_not_supported", 1),
        (&orders, "orders.id = 1", "predicate_not_supported", 1),
        (&orders, "small = 5 IS TRUE", "predicate_not_supported", 1),
        (&orders, "(small = 5) = true", "predicate_not_supported", 2),
        (&orders, "status = E'a'", "predicate_not_supported", 10),
        (&orders, "status LIKE 'a\\'", "predicate_not_supported", 13),
        (&orders, "small = 1::numeric(3,1)", "predicate_not_supported", 9),
        (&orders, "small = $1", "predicate_not_supported", 9),
        (&orders, "status", "predicate_syntax", 1),
        (&orders, "5", "predicate_syntax", 1),
        (&orders, "", "predicate_syntax", 0),
        (&orders, "id = 1; DROP TABLE orders", "predicate_syntax", 7),
        (&things, "data = 'x'", "comparison_not_exact", 1),
        (&things, "free = 5", "comparison_not_exact", 1),
        (&things, "odd = 'x'", "comparison_not_exact", 1),
        (&things, "seen = 'paid'", "comparison_not_exact", 1),
        (&things, "id LIKE '5'", "comparison_not_exact", 1),
        (&things, "price = 0.12345678901234567", "comparison_not_exact", 1),
        (&things, "name = 5.5", "value_not_of_type", 1),
        (&things, "name = id", "comparison_not_exact", 1),
        (&things, "name ILIKE 'x'", "predicate_syntax", 1),
        (&things, "id = CAST('5' AS INTEGER)", "predicate_not_supported", 11),
        (&things, "name GLOB 'x*'", "predicate_not_supported", 1),
    ] {
        let refusal = Predicate::parse(condition, table, &Anna).expect_err(condition);
        let expected = (code, (position > 0).then_some(position));
        assert_eq!((refusal.code, refusal.position), expected, "{condition}: {refusal:?}");
        assert!(Refusal::CODES.contains(&refusal.code));
    }
}

#[test]
fn equal_conditions_have_one_key() {
    let key = |condition: &str| {
        let predicate = Predicate::parse(condition, &orders(), &Anna);
        predicate.unwrap_or_else(|refusal| panic!("{condition}: {refusal}")).key().to_owned()
    };
    for same in [
        &["small = 5", "5 = small", " (SMALL=5) ", "NOT small <> '5'", "small IN (5, 5)"][..],
        &["small = 1 AND active", "active AND 1 = small AND small = 1"],
        &["small IN (1, 2)", "small in ('2', 1)", "NOT small NOT IN (2, 1)"],
        &["status = 'anna'", "status = auth.user_id()"],
        &[
            "NOT (small < 5 OR active)",
            "small >= 5 AND NOT active",
            "small >= 5 AND active = false",
        ],
        &["small BETWEEN 1 AND 3", "small <= 3 AND small >= 1"],
        &["at = '2024-01-01 10:00Z'", "at = '2024-01-01 12:00+02'"],
        &["price = 1.0", "price = 1.00", "price = '1e0'"],
        &["status LIKE 'a%%'", "status LIKE 'a%'"],
    ] {
        for condition in same {
            assert_eq!(key(condition), key(same[0]), "{condition}");
        }
    }
    for (left, right) in [
        ("small = 5", "id = 5"),
        ("small = 5", "small = 5.5"),
        ("status = 'a'", "status = 'A'"),
        ("status = 'a OR b'", "status = 'a' OR status = 'b'"),
        ("single = 0.1", "single = '0.1'"),
        ("status LIKE 'a_'", "status LIKE 'a\\_'"),
    ] {
        assert_ne!(key(left), key(right));
    }
}

#[test]
fn a_list_of_thousands_is_looked_up() {
    let ids: Vec<String> = (0..20_000).map(|id| (id * 2).to_string()).collect();
    let list = ids.join(", ");
    for (table, condition) in [
        (orders(), format!("id IN ({list})")),
        (things(), format!("(id NOT IN ({list})) IS NOT TRUE")),
    ] {
        let predicate = Predicate::parse(&condition, &table, &()).expect("a condition");
        for (id, expected) in [(0, Truth::True), (39_998, Truth::True), (39_999, Truth::False)] {
            let image = json!({ "id": id }).to_string();
            let row = Row::parse(image.as_bytes()).expect("an object");
            assert_eq!(predicate.test(&row), Ok(expected), "{id}");
        }
    }
}

#[test]
fn columns_are_named_even_where_they_do_not_matter() {
    let columns = |condition: &str| {
        let predicate = Predicate::parse(condition, &orders(), &()).expect("a condition");
        predicate.columns().join(" ")
    };
    assert_eq!(columns("status = 'x' AND small = 1 AND small < 5"), "small status");
    assert_eq!(columns("price = 1 AND false"), "price");
    assert_eq!(columns("owner = auth.user_id()"), "owner");
    assert_eq!(columns("true"), "");
}

#[test]
fn an_image_that_lacks_a_column_leaves_only_that_unsure() {
    let missing = Unsure::Missing { column: "status".into() };
    let row = json!({ "small": 5, "id": "x" });
    for (condition, expected) in [
        ("status = 'a'", Err(missing.clone())),
        ("status IS NULL", Err(missing.clone())),
        ("status = 'a' AND small = 5", Err(missing.clone())),
        ("status = 'a' AND small = 6", Ok(Truth::False)),
        ("status = 'a' OR small = 5", Ok(Truth::True)),
        ("(status = 'a') IS TRUE", Err(missing)),
        ("id = 1", Err(Unsure::NotOfType { column: "id".into(), type_name: "int8".into() })),
    ] {
        assert_eq!(test(&orders(), condition, &row), expected, "{condition}");
    }
}

#[test]
fn bytes_in_a_column_of_numbers_matter_only_where_they_could() {
    let row = json!({ "id": "paid", "seen": "Infinity" });
    for (condition, expected) in [
        ("id = 5", Some(Truth::False)),
        ("id > 5", Some(Truth::True)),
        ("id = 'not-base64'", Some(Truth::False)),
        ("id < 'q-q'", None),
        ("id", None),
        ("seen > 5", Some(Truth::True)),
        ("seen < 'q-q'", None),
    ] {
        assert_eq!(test(&things(), condition, &row).ok(), expected, "{condition}");
    }
}

proptest! {
    #[test]
    fn no_text_is_too_strange(
        text in "(id|name|'a'|5|=|<|\\(|\\)| AND | OR | NOT | IN | IS | NULL|,|LIKE|auth.user_id\\(\\)| ){0,14}"
    ) {
        for table in [orders(), things()] {
            if let Ok(predicate) = Predicate::parse(&text, &table, &Anna) {
                let _ = predicate.test(&Row::parse(b"{\"id\":1,\"name\":null}").expect("a row"));
            }
        }
    }
}

#[test]
fn a_clients_pattern_is_bounded_and_an_operators_is_not() {
    let condition = |chars: usize| format!("status LIKE '{}'", "ä".repeat(chars));
    let read = |chars| Predicate::of_client(&condition(chars), &orders(), &Anna);
    assert!(read(256).is_ok_and(|predicate| predicate.patterns() == 1));
    assert_eq!(read(257).map(|_| ()).map_err(|refusal| refusal.code), Err("predicate_too_large"));
    let rule = Predicate::parse(&condition(257), &orders(), &Anna).expect("a rule");
    assert_eq!(rule.patterns(), 0, "it is not the client's");
}

#[test]
fn a_clients_pattern_is_not_tried_on_a_long_text_where_others_wait() {
    let image = |bytes: usize| json!({ "id": 1, "status": "a".repeat(bytes) }).to_string();
    let (short, long) = (image(64 << 10), image((64 << 10) + 1));
    let (short, long) = (Row::parse(short.as_bytes()), Row::parse(long.as_bytes()));
    let (short, long) = (short.expect("a row"), long.expect("a row"));
    let too_long = Err(Unsure::TooLong { column: "status".to_owned() });
    for (condition, expected) in [
        ("status LIKE '%b'", Ok(Truth::False)),
        ("status NOT LIKE '%b'", Ok(Truth::True)),
        ("status LIKE '%b' AND missing = 1", Ok(Truth::False)),
    ] {
        let condition = condition.replace("missing", "small");
        let predicate = Predicate::of_client(&condition, &orders(), &Anna).expect("a predicate");
        assert_eq!(predicate.test(&short), expected, "{condition}");
        assert_eq!(predicate.test(&long), too_long, "{condition}");
        assert_eq!(predicate.test_with(&long, Effort::Whole), expected, "{condition}");
        let rule = Predicate::parse(&condition, &orders(), &Anna).expect("a rule");
        assert_eq!(rule.test(&long), expected, "{condition} as a rule");
    }
    let decided = Predicate::of_client("id = 2 AND status LIKE '%b'", &orders(), &Anna);
    assert_eq!(decided.expect("a predicate").test(&long), Ok(Truth::False), "without a search");
}
