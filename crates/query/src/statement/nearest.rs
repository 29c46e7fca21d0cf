//! The name that was meant: `totl` is near `total`.

/// Bytes of a name that is looked for, at most. Comparing two names takes as long as the product of their
/// lengths, and the client writes both.
const NAME_BYTES_MAX: usize = 64;
/// Names that are compared with it, at most.
const NAMES_MAX: usize = 4_000;

/// The nearest of some names, if one is near enough to have been meant.
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
    let distances = alike.map(|known| (distance(&name, &known.to_lowercase()), known));
    let near = distances.filter(|(distance, _)| *distance <= far);
    near.min().map(|(_, known)| known)
}

/// How many letters must be put, taken, changed or swapped with the next.
fn distance(left: &str, right: &str) -> usize {
    let (left, right): (Vec<char>, Vec<char>) = (left.chars().collect(), right.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for (row, letter) in left.iter().enumerate() {
        let mut line = vec![row + 1];
        for (at, other) in right.iter().enumerate() {
            let changed = last[at] + usize::from(letter != other);
            let mut least = changed.min(last[at + 1] + 1).min(line[at] + 1);
            let is_swap = row > 0 && at > 0 && left[row - 1] == *other && right[at - 1] == *letter;
            if is_swap {
                least = least.min(before[at - 1] + 1);
            }
            line.push(least);
        }
        before = last;
        last = line;
    }
    last[right.len()]
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
