//! "Did you mean": the name that someone meant who wrote another. `totl` is near `total`.
//!
//! Every crate asks here, so that all suggest alike.

/// Bytes of a name that is looked for, at most. Comparing two names takes as long as the product of their
/// lengths, and the client writes both.
const NAME_BYTES_MAX: usize = 64;
/// Names that are compared with it, at most.
const NAMES_MAX: usize = 4_000;

/// The nearest of some names, if one is near enough to have been meant.
#[must_use]
pub fn nearest<'a>(name: &str, among: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let name = name.to_lowercase();
    let length = name.chars().count();
    let far = (length / 3).max(1);
    // No more letters are counted than it takes to know that there are too many.
    let letters = |known: &str| known.chars().take(length + far + 1).count();
    let alike = among.take(NAMES_MAX).filter(|known| letters(known).abs_diff(length) <= far);
    // Letters that are put, taken, changed, or swapped with the next.
    let distance = |known: &str| strsim::osa_distance(&name, &known.to_lowercase());
    let distances = alike.map(|known| (distance(known), known));
    let near = distances.filter(|(distance, _)| *distance <= far);
    near.min().map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_meant_is_found_and_what_was_not_is_not() {
        let names = ["id", "total", "status", "created_at"];
        for (name, meant) in [
            ("totl", Some("total")),
            ("toatl", Some("total")),
            ("Statsu", Some("status")),
            ("createdat", Some("created_at")),
            ("password", None),
            ("x", None),
        ] {
            assert_eq!(nearest(name, names.into_iter()), meant, "{name}");
        }
    }

    #[test]
    fn what_takes_long_to_compare_is_not_compared() {
        let long = "a".repeat(NAME_BYTES_MAX);
        let longer = "a".repeat(NAME_BYTES_MAX + 1);
        assert_eq!(nearest(&long, [longer.as_str()].into_iter()), Some(longer.as_str()));
        assert_eq!(nearest(&longer, [longer.as_str()].into_iter()), None);
        let endless = "a".repeat(120_000);
        let names = vec![endless.as_str(); NAMES_MAX];
        assert_eq!(nearest(&long, names.into_iter()), None);
        assert_eq!(nearest(&endless, [endless.as_str()].into_iter()), None);
        let many = std::iter::repeat_n("total", NAMES_MAX).chain(["status"]);
        assert_eq!(nearest("statu", many), None);
    }
}
