//! A long text is searched for the parts of a pattern, from one `%` to the next.
//!
//! ```text
//!   ab%c_d%ef      text: [ab]……[c_d]……………[ef]      the ends are compared, and of what lies between
//!                                                  each part is taken where it is first found
//! ```
//!
//! A part has a fixed number of characters, so whoever takes the first place leaves the most for the others.

use super::{Pattern, Piece};

impl Pattern {
    pub(super) fn matches_by_search(&self, text: &str) -> bool {
        let mut parts = self.pieces.split(|piece| *piece == Piece::Any);
        let Some(first) = parts.next() else { return text.is_empty() };
        let Some(begun) = self.begins_with(text, first) else { return false };
        let rest = &text[begun..];
        let Some(last) = parts.next_back() else { return rest.is_empty() };
        let Some(end) = self.ends_with(rest, last) else { return false };
        let mut rest = &rest[..end];
        for part in parts {
            let Some(after) = self.find(rest, part) else { return false };
            rest = &rest[after..];
        }
        true
    }

    /// How many bytes of a text a part is that it begins with.
    fn begins_with(&self, text: &str, part: &[Piece]) -> Option<usize> {
        let mut chars = text.chars();
        part.iter().all(|piece| chars.next().is_some_and(|c| self.fits(*piece, c))).then_some(())?;
        Some(text.len() - chars.as_str().len())
    }

    /// Where the part begins that a text ends with.
    fn ends_with(&self, text: &str, part: &[Piece]) -> Option<usize> {
        let mut chars = text.chars();
        let fits = |piece: &Piece| chars.next_back().is_some_and(|c| self.fits(*piece, c));
        part.iter().rev().all(fits).then_some(())?;
        Some(chars.as_str().len())
    }

    fn fits(&self, piece: Piece, c: char) -> bool {
        match piece {
            Piece::Any | Piece::One => true,
            Piece::Same(wanted) => wanted == self.fold(c),
        }
    }

    /// Where the first place ends at which a part is.
    fn find(&self, text: &str, part: &[Piece]) -> Option<usize> {
        let same = |piece: &Piece| match piece {
            Piece::Same(c) => Some(*c),
            Piece::Any | Piece::One => None,
        };
        let literal = part.iter().map(same).collect::<Option<String>>();
        match literal.filter(|_| !self.folds_ascii) {
            // The standard library's search takes time that grows with the text alone.
            Some(literal) => text.find(&literal).map(|at| at + literal.len()),
            None => Masks::new(part).find(text, |c| self.fold(c)),
        }
    }
}

/// Of each character the places of a part that it fits, as bits: all beginnings of the part that the text
/// has come to are followed at once, a word of them at a time.
struct Masks {
    /// Words of a mask.
    words: usize,
    /// The place after which the part is whole.
    last: usize,
    /// In order, with where the mask of each begins.
    chars: Vec<(char, usize)>,
    /// By character; the first is that of all others.
    masks: Vec<u64>,
    /// Where the mask of an ASCII character begins.
    ascii: [usize; 128],
}

impl Masks {
    fn new(part: &[Piece]) -> Masks {
        let words = part.len().div_ceil(64).max(1);
        let mut others = vec![0; words];
        let wanted = part.iter().enumerate().filter_map(|(at, piece)| match piece {
            Piece::Same(c) => Some((*c, at)),
            Piece::Any | Piece::One => {
                others[at / 64] |= 1 << (at % 64);
                None
            }
        });
        let mut wanted: Vec<(char, usize)> = wanted.collect();
        wanted.sort_unstable();
        let mut all =
            Masks { words, last: part.len(), chars: Vec::new(), masks: others, ascii: [0; 128] };
        for (c, at) in wanted {
            if all.chars.last().is_none_or(|(known, _)| *known != c) {
                all.chars.push((c, all.masks.len()));
                all.masks.extend_from_within(..words);
                if let Some(place) = all.ascii.get_mut(c as usize) {
                    *place = all.masks.len() - words;
                }
            }
            let begins = all.masks.len() - words;
            all.masks[begins + at / 64] |= 1 << (at % 64);
        }
        all
    }

    fn find(&self, text: &str, fold: impl Fn(char) -> char) -> Option<usize> {
        let Some(last) = self.last.checked_sub(1) else { return Some(0) };
        let mut begun = vec![0_u64; self.words];
        for (at, c) in text.char_indices() {
            let mask = self.mask(fold(c));
            let mut carried = 1;
            for (word, fits) in begun.iter_mut().zip(mask) {
                let carries = *word >> 63;
                *word = (*word << 1 | carried) & fits;
                carried = carries;
            }
            if begun[last / 64] >> (last % 64) & 1 == 1 {
                return Some(at + c.len_utf8());
            }
        }
        None
    }

    fn mask(&self, c: char) -> &[u64] {
        let begins = match self.ascii.get(c as usize) {
            Some(begins) => *begins,
            None => match self.chars.binary_search_by_key(&c, |(known, _)| *known) {
                Ok(at) => self.chars[at].1,
                Err(_) => 0,
            },
        };
        &self.masks[begins..begins + self.words]
    }
}
