//! Patterns over stream names: `*` is one segment, `**` any number of segments, all else literal.

/// Whether `name` matches `pattern`.
pub fn matches(pattern: &str, name: &str) -> bool {
    let pattern: Vec<&str> = segments(pattern).collect();
    let name: Vec<&str> = segments(name).collect();
    matches_segments(&pattern, &name)
}

/// The literal text every matching name begins with, to narrow a search.
pub fn literal_prefix(pattern: &str) -> &str {
    let Some(wild) = pattern.find('*') else { return pattern };
    let end = pattern[..wild].rfind('/').map_or(0, |slash| slash + 1);
    let (prefix, rest) = pattern.split_at(end);
    // `a/**` matches `a` itself.
    if rest.starts_with("**") { prefix.trim_end_matches('/') } else { prefix }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

/// Greedy with one point to return to: the last `**` seen. Linear in practice and never worse than
/// the product of the lengths, whatever the pattern.
fn matches_segments(pattern: &[&str], name: &[&str]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(&"**") => {
                retry = Some((p, n));
                p += 1;
            }
            Some(&segment) if segment == "*" || segment == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match retry {
                Some((star, from)) => {
                    retry = Some((star, from + 1));
                    p = star + 1;
                    n = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&segment| segment == "**")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_star_is_one_segment_and_two_are_any_number() {
        for (pattern, name, expected) in [
            ("events/*", "events/a", true),
            ("events/*", "events/a/b", false),
            ("events/*", "events", false),
            ("events/**", "events", true),
            ("events/**", "events/a/b", true),
            ("**/b", "a/c/b", true),
            ("a/**/b/**/c", "a/x/b/b/y/c", true),
            ("a/**/b/**/c", "a/x/y/c", false),
            ("a/*/c", "a/b/c", true),
            ("doc-1", "doc-1", true),
            ("doc-*", "doc-1", false),
            ("**", "anything/at/all", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} on {name}");
        }
    }

    #[test]
    fn the_literal_prefix_ends_before_the_first_wild_segment() {
        assert_eq!(literal_prefix("events/a*/b"), "events/");
        assert_eq!(literal_prefix("events/**"), "events");
        assert_eq!(literal_prefix("a/b/*/c"), "a/b/");
        assert_eq!(literal_prefix("events/a"), "events/a");
        assert_eq!(literal_prefix("**"), "");
    }
}
