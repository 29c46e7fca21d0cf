//! Ranges, and those of them that a value is in.
//!
//! A B+tree, ordered by the lower bound, in which every branch knows the highest upper bound below it:
//! branches that begin after a value or end before it are not looked into. So a value costs the height
//! of the tree for each range it is in at most, and the height alone if it is in none of many short
//! ones. Nodes are wide because it is their number that costs: each is memory that no cache has.

use crate::engine::QueryId;

/// Ranges of a leaf, at most. (So few in tests that trees become high.)
const LEAF_MAX: usize = if cfg!(test) { 8 } else { 32 };
/// Children of a branch, at most.
const BRANCH_MAX: usize = if cfg!(test) { 8 } else { 128 };

/// Children of the root of a tree that is large.
const CHILDREN_LARGE: usize = if cfg!(test) { 3 } else { 16 };

/// A number in two halves: so a range takes no room for alignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Halves(u64, u64);

impl Halves {
    fn of(number: u128) -> Halves {
        #[expect(clippy::cast_possible_truncation, reason = "both halves are taken")]
        Halves((number >> 64) as u64, number as u64)
    }

    fn number(self) -> u128 {
        u128::from(self.0) << 64 | u128::from(self.1)
    }
}

/// A range of one query, with both its ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Span {
    low: Halves,
    high: Halves,
    pub(super) query: QueryId,
}

impl Span {
    pub(super) fn new(low: u128, high: u128, query: QueryId) -> Span {
        Span { low: Halves::of(low), high: Halves::of(high), query }
    }

    /// Both are in it.
    pub(super) fn ends(self) -> (u128, u128) {
        (self.low.number(), self.high.number())
    }
}

/// Ranges, each as often as it was added.
#[derive(Debug)]
pub(super) struct Ranges {
    root: Node,
}

/// All leaves are equally far from the root.
#[derive(Debug)]
enum Node {
    /// In order.
    Leaf(Vec<Span>),
    Branch(Box<Branch>),
}

/// The parts of a branch are apart so that what is looked through for a value lies together.
#[derive(Debug, Default)]
struct Branch {
    extents: Vec<Extent>,
    /// The first range of each child: exactly, also after it was removed.
    firsts: Vec<Span>,
    nodes: Vec<Node>,
}

/// What a value is compared with to know whether to look into a child.
#[derive(Debug, Clone, Copy)]
struct Extent {
    /// Of its first range.
    low: Halves,
    /// The highest upper bound in it.
    high: Halves,
    /// The highest in it and in all children before it.
    high_so_far: Halves,
}

impl Default for Ranges {
    fn default() -> Ranges {
        Ranges { root: Node::Leaf(Vec::new()) }
    }
}

impl Ranges {
    pub(super) fn insert(&mut self, span: Span) {
        if let Some(split) = self.root.insert(span) {
            let old = std::mem::replace(&mut self.root, Node::Leaf(Vec::new()));
            let mut branch = Branch::default();
            branch.put(0, old);
            branch.put(1, split);
            self.root = Node::Branch(Box::new(branch));
        }
    }

    pub(super) fn remove(&mut self, span: Span) {
        self.root.remove(span);
        while let Node::Branch(branch) = &mut self.root
            && branch.nodes.len() <= 1
        {
            self.root = branch.nodes.pop().unwrap_or(Node::Leaf(Vec::new()));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.root.len() == 0
    }

    /// Whether there are so many that a value takes long to find those it is in.
    pub(super) fn is_large(&self) -> bool {
        matches!(&self.root, Node::Branch(branch) if branch.nodes.len() >= CHILDREN_LARGE)
    }

    pub(super) fn spans(&self, note: &mut impl FnMut(Span)) {
        self.root.spans(note);
    }

    /// The queries of all ranges that a value is in.
    pub(super) fn stab(&self, value: u128, found: &mut Vec<QueryId>) {
        self.root.stab(Halves::of(value), found);
    }
}

impl Node {
    fn len(&self) -> usize {
        match self {
            Node::Leaf(spans) => spans.len(),
            Node::Branch(branch) => branch.nodes.len(),
        }
    }

    /// How many it may have.
    fn max(&self) -> usize {
        match self {
            Node::Leaf(_) => LEAF_MAX,
            Node::Branch(_) => BRANCH_MAX,
        }
    }

    fn first(&self) -> Option<Span> {
        match self {
            Node::Leaf(spans) => spans.first().copied(),
            Node::Branch(branch) => branch.firsts.first().copied(),
        }
    }

    fn high(&self) -> Halves {
        match self {
            Node::Leaf(spans) => spans.iter().map(|span| span.high).max().unwrap_or_default(),
            Node::Branch(branch) => {
                branch.extents.last().map(|extent| extent.high_so_far).unwrap_or_default()
            }
        }
    }

    /// Puts a range in its place. A node that is too large gives its second half away, or what came
    /// last, if that came at the end: who adds in order leaves full nodes behind.
    fn insert(&mut self, span: Span) -> Option<Node> {
        match self {
            Node::Leaf(spans) => {
                let at = spans.partition_point(|known| *known <= span);
                if spans.len() == spans.capacity() {
                    // Most tuples of values have one range: they shall not pay for more.
                    spans.reserve_exact((spans.len() / 2).clamp(1, LEAF_MAX));
                }
                spans.insert(at, span);
                if spans.len() <= LEAF_MAX {
                    return None;
                }
                let split = spans.split_off(if at == LEAF_MAX { at } else { LEAF_MAX / 2 });
                spans.shrink_to_fit();
                Some(Node::Leaf(split))
            }
            Node::Branch(branch) => {
                let at = branch.child_of(span);
                let split = branch.nodes[at].insert(span);
                branch.renew(at);
                if let Some(split) = split {
                    branch.put(at + 1, split);
                }
                if branch.nodes.len() <= BRANCH_MAX {
                    return None;
                }
                let half = if at + 1 == BRANCH_MAX { BRANCH_MAX } else { BRANCH_MAX / 2 };
                Some(Node::Branch(Box::new(branch.split_off(half))))
            }
        }
    }

    fn remove(&mut self, span: Span) {
        match self {
            Node::Leaf(spans) => {
                if let Ok(at) = spans.binary_search(&span) {
                    spans.remove(at);
                }
            }
            Node::Branch(branch) => {
                let at = branch.child_of(span);
                branch.nodes[at].remove(span);
                let child = &branch.nodes[at];
                match child.len() {
                    0 => branch.take(at),
                    left if left < child.max() / 4 => branch.join(at),
                    _ => branch.renew(at),
                }
            }
        }
    }

    fn spans(&self, note: &mut impl FnMut(Span)) {
        match self {
            Node::Leaf(spans) => spans.iter().copied().for_each(note),
            Node::Branch(branch) => branch.nodes.iter().for_each(|node| node.spans(note)),
        }
    }

    fn stab(&self, value: Halves, found: &mut Vec<QueryId>) {
        match self {
            Node::Leaf(spans) => {
                let begun = spans.iter().take_while(|span| span.low <= value);
                found.extend(begun.filter(|span| span.high >= value).map(|span| span.query));
            }
            Node::Branch(branch) => {
                let begun = branch.extents.partition_point(|extent| extent.low <= value);
                for at in (0..begun).rev() {
                    let extent = branch.extents[at];
                    if extent.high_so_far < value {
                        break;
                    }
                    if extent.high >= value {
                        branch.nodes[at].stab(value, found);
                    }
                }
            }
        }
    }
}

impl Branch {
    /// The child that a range is in, or comes into.
    fn child_of(&self, span: Span) -> usize {
        self.firsts.partition_point(|first| *first <= span).saturating_sub(1)
    }

    /// Says anew what is known of a child; one that is empty has no first and is taken out by its caller.
    fn renew(&mut self, at: usize) {
        if let Some(first) = self.nodes[at].first() {
            self.firsts[at] = first;
            self.extents[at].low = first.low;
        }
        self.extents[at].high = self.nodes[at].high();
        self.sum_up(at);
    }

    /// Says anew how high all children up to one are, from one on.
    fn sum_up(&mut self, from: usize) {
        let before = from.checked_sub(1).map(|at| self.extents[at].high_so_far);
        let mut highest = before.unwrap_or_default();
        for extent in &mut self.extents[from..] {
            highest = highest.max(extent.high);
            extent.high_so_far = highest;
        }
    }

    fn put(&mut self, at: usize, node: Node) {
        let Some(first) = node.first() else { return };
        let high = node.high();
        self.firsts.insert(at, first);
        self.extents.insert(at, Extent { low: first.low, high, high_so_far: high });
        self.nodes.insert(at, node);
        self.sum_up(at);
    }

    fn take(&mut self, at: usize) {
        self.firsts.remove(at);
        self.extents.remove(at);
        self.nodes.remove(at);
        self.sum_up(at);
    }

    fn split_off(&mut self, at: usize) -> Branch {
        let mut split = Branch {
            extents: self.extents.split_off(at),
            firsts: self.firsts.split_off(at),
            nodes: self.nodes.split_off(at),
        };
        split.sum_up(0);
        split
    }

    /// Joins a small child with one beside it, if that makes none that is large.
    fn join(&mut self, at: usize) {
        self.renew(at);
        let left = if at + 1 < self.nodes.len() { at } else { at.saturating_sub(1) };
        let right = left + 1;
        if right >= self.nodes.len() {
            return;
        }
        // With room to grow: what is joined must not be split by the next.
        let joined_max = self.nodes[left].max() * 3 / 4;
        if self.nodes[left].len() + self.nodes[right].len() > joined_max {
            return;
        }
        let second = self.nodes.remove(right);
        self.firsts.remove(right);
        self.extents.remove(right);
        match (&mut self.nodes[left], second) {
            (Node::Leaf(spans), Node::Leaf(others)) => spans.extend(others),
            (Node::Branch(branch), Node::Branch(others)) => {
                let joined = branch.nodes.len();
                branch.firsts.extend(others.firsts);
                branch.extents.extend(others.extents);
                branch.nodes.extend(others.nodes);
                branch.sum_up(joined);
            }
            // All leaves are equally far from the root.
            (Node::Leaf(_), Node::Branch(_)) | (Node::Branch(_), Node::Leaf(_)) => {}
        }
        self.renew(left);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::grid::Grid;
    use super::*;

    /// Small ones as they are, and then some that are far apart: ranges of all lengths.
    fn number(small: u128) -> u128 {
        if small < 60 { small } else { u128::MAX >> ((80 - small) * 5) }
    }

    proptest! {
        #[test]
        fn a_value_finds_the_ranges_that_it_is_in_whatever_came_and_went(
            steps in proptest::collection::vec((0_u8..4, 0_u128..60, 0_u128..20, 0_u32..40), 1..1500),
        ) {
            let mut tree = Ranges::default();
            let mut grid = Grid::default();
            let mut model: Vec<(u128, u128, QueryId)> = Vec::new();
            for (what, low, length, query) in steps {
                let range = (number(low), number(low + length), QueryId(query));
                let span = Span::new(range.0, range.1, range.2);
                if what == 0 && !model.is_empty() {
                    let at = usize::try_from(query).expect("it is small") % model.len();
                    let (low, high, query) = model.swap_remove(at);
                    tree.remove(Span::new(low, high, query));
                    grid.remove(Span::new(low, high, query));
                } else if what == 1 {
                    tree.remove(span);
                    if let Some(at) = model.iter().position(|known| *known == range) {
                        grid.remove(span);
                        model.swap_remove(at);
                    }
                } else {
                    tree.insert(span);
                    grid.insert(span);
                    model.push(range);
                }
            }
            prop_assert_eq!(tree.is_empty(), model.is_empty());
            prop_assert_eq!(grid.is_empty(), model.is_empty());
            for value in (0..80).map(number) {
                let (mut found, mut in_cells) = (Vec::new(), Vec::new());
                tree.stab(value, &mut found);
                grid.stab(value, &mut in_cells);
                found.sort();
                let mut expected: Vec<QueryId> = model
                    .iter()
                    .filter(|(low, high, _)| *low <= value && value <= *high)
                    .map(|(_, _, query)| *query)
                    .collect();
                expected.sort();
                prop_assert_eq!(&found, &expected);
                // What is in a cell is rounded: a value may find a range that it just misses, and no other.
                for query in found {
                    let at = in_cells.iter().position(|known| *known == query);
                    prop_assert!(at.is_some(), "{value} does not find {query:?}");
                    in_cells.swap_remove(at.unwrap_or_default());
                }
                for query in in_cells {
                    let is_near = |(low, high, of): &(u128, u128, QueryId)| {
                        let near = high.saturating_sub(*low) >> 20;
                        *of == query
                            && low.saturating_sub(near) <= value
                            && value <= high.saturating_add(near)
                    };
                    prop_assert!(model.iter().any(is_near), "{value} finds {query:?}");
                }
            }
            for (low, high, query) in model {
                tree.remove(Span::new(low, high, query));
                grid.remove(Span::new(low, high, query));
            }
            prop_assert!(tree.is_empty() && grid.is_empty());
        }
    }
}
