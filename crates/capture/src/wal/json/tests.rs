//! Values as the database writes them, to JSON as it would make it.

use proptest::prelude::*;

use super::*;

fn written(kind: &Kind, text: &str) -> Result<String, ValueError> {
    let mut out = String::new();
    value(&mut out, kind, text).map(|()| out)
}

fn array_of(kind: Kind) -> Kind {
    Kind::Array(Box::new(kind), b',')
}

#[test]
fn plain_values_are_as_to_jsonb_writes_them() {
    for (kind, text, json) in [
        (Kind::Boolean, "t", "true"),
        (Kind::Boolean, "f", "false"),
        (Kind::Number, "-9223372036854775808", "-9223372036854775808"),
        (Kind::Number, "1.50", "1.50"),
        (Kind::Number, "1e-07", "1e-07"),
        (Kind::Number, "NaN", "\"NaN\""),
        (Kind::Number, "-Infinity", "\"-Infinity\""),
        (Kind::Text, "a\"b\\c\nd\u{7f}é", "\"a\\\"b\\\\c\\u000ad\u{7f}é\""),
        (Kind::Json, "{\"a\": 1}", "{\"a\": 1}"),
        (Kind::Json, r#""a\u0000b""#, r#""a\ufffdb""#),
        (Kind::Json, r#"["\\u0000", "\\\u0000\n"]"#, r#"["\\u0000", "\\\ufffd\n"]"#),
        (Kind::Time, "2024-02-03 04:05:06", "\"2024-02-03T04:05:06\""),
        (Kind::Time, "2024-02-03 04:05:06.789+00", "\"2024-02-03T04:05:06.789+00:00\""),
        (Kind::Time, "0044-03-15 00:00:00+00 BC", "\"0044-03-15T00:00:00+00:00 BC\""),
        (Kind::Time, "0044-03-15 00:00:00 BC", "\"0044-03-15T00:00:00 BC\""),
        (Kind::Time, "-infinity", "\"-infinity\""),
        (Kind::Bytes, "\\x", "\"\""),
        (Kind::Bytes, "\\x00ff10", "\"AP8Q\""),
    ] {
        assert_eq!(written(&kind, text).as_deref(), Ok(json), "{text}");
    }
}

#[test]
fn arrays_are_nested_as_they_are() {
    let boxes = Kind::Array(Box::new(Kind::Text), b';');
    for (kind, text, json) in [
        (array_of(Kind::Number), "{}", "[]"),
        (array_of(Kind::Number), "{1,NULL,3}", "[1,null,3]"),
        (array_of(Kind::Number), "{{1,2},{3,4}}", "[[1,2],[3,4]]"),
        (array_of(Kind::Number), "[2:3]={7,8}", "[7,8]"),
        (array_of(Kind::Text), "{a,\"NULL\",\"x,}\\\"\\\\\",\"\"}", r#"["a","NULL","x,}\"\\",""]"#),
        (array_of(Kind::Boolean), "{t,f}", "[true,false]"),
        (array_of(Kind::Json), "{\"{\\\"a\\\": [1]}\",2}", "[{\"a\": [1]},2]"),
        (array_of(Kind::Time), "{\"2024-02-03 04:05:06+00\"}", "[\"2024-02-03T04:05:06+00:00\"]"),
        (array_of(Kind::Text), "{\"\\\\x00\"}", "[\"\\\\x00\"]"),
        (boxes, "{(1,1),(0,0);(2,2),(0,0)}", "[\"(1,1),(0,0)\",\"(2,2),(0,0)\"]"),
    ] {
        assert_eq!(written(&kind, text).as_deref(), Ok(json), "{text}");
    }
}

#[test]
fn what_is_not_an_array_is_an_error() {
    for text in ["", "{", "1", "{1", "{1}}", "{1,}", "{,1}", "{\"a", "{\"a\\", "[1:2]", "{1} "] {
        let written = written(&array_of(Kind::Number), text);
        assert!(matches!(written, Err(ValueError::NotArray)), "{text} gave {written:?}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,40}", which in 0..7_usize) {
        let kinds = [
            Kind::Json, Kind::Boolean, Kind::Number, Kind::Time, Kind::Bytes, Kind::Text, array_of(Kind::Text),
        ];
        let _ = written(&kinds[which], &text);
    }

    #[test]
    fn braces_of_any_depth_do_not_panic(text in "[{}\",a\\\\]{0,60}") {
        let _ = written(&array_of(Kind::Text), &text);
    }

    #[test]
    fn strings_are_read_back_as_they_were(text in any::<String>()) {
        let mut out = String::new();
        string(&mut out, &text);
        prop_assert_eq!(serde_json::from_str::<String>(&out).expect("JSON"), text);
    }
}
