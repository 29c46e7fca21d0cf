//! The query string of a URL, read as the URL standard reads a form: `%XX` is a byte and `+` a space, in names and in
//! values; a name without `=` has an empty value. Every route reads its query here.

use std::borrow::Cow;

/// The names and values, decoded, in order.
pub(crate) fn pairs(query: &str) -> impl Iterator<Item = (Cow<'_, str>, Cow<'_, str>)> {
    form_urlencoded::parse(query.as_bytes())
}

/// The first value of a name.
pub(crate) fn first<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    pairs(query).find(|(given, _)| given == name).map(|(_, value)| value)
}

/// The last value of a name, for parameters that a later one overrides.
pub(crate) fn last<'a>(query: &'a str, name: &str) -> Option<Cow<'a, str>> {
    pairs(query).filter(|(given, _)| given == name).last().map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_decoded_and_keep_their_order() {
        let query = "a=1&table=my+%22table%22&%6Cive=s%73e&a=2&empty=&bare&&sum=1%2B1";
        let read: Vec<(Cow<'_, str>, Cow<'_, str>)> = pairs(query).collect();
        let expected = [
            ("a", "1"),
            ("table", "my \"table\""),
            ("live", "sse"),
            ("a", "2"),
            ("empty", ""),
            ("bare", ""),
            ("sum", "1+1"),
        ];
        assert_eq!(read, expected.map(|(name, value)| (name.into(), value.into())));
    }

    #[test]
    fn the_first_and_the_last_value_are_found() {
        assert_eq!(first("b=0&a=1&a=2", "a").as_deref(), Some("1"));
        assert_eq!(last("a=1&a=2&b=0", "a").as_deref(), Some("2"));
        assert_eq!(first("aa=1", "a"), None);
        assert_eq!(last("", "a"), None);
    }

    #[test]
    fn what_is_not_utf_8_is_read_as_replacement_characters() {
        assert_eq!(first("a=%FFb", "a").as_deref(), Some("\u{FFFD}b"));
        assert_eq!(first("a=100%", "a").as_deref(), Some("100%"));
    }
}
