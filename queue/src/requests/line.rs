//! Who takes which request next: pure.

use super::RequestLine;

/// The node that asks, and the names of all that live.
#[derive(Debug, Clone, Copy)]
pub struct Living<'a> {
    pub own: &'a str,
    pub all: &'a [String],
}

/// The requests that this node may take now, in the order of their creation: the first of each line that
/// nobody is at. One to a node that does not live is for anybody, who says so.
pub fn next<'a>(lines: &'a [RequestLine], living: Living<'_>) -> Vec<&'a RequestLine> {
    let mut heads: Vec<(&Option<String>, &RequestLine)> = Vec::new();
    for line in lines.iter().filter(|line| !line.request.done) {
        if !heads.iter().any(|(lane, _)| **lane == line.request.node) {
            heads.push((&line.request.node, line));
        }
    }
    let ours = |lane: &Option<String>| match lane {
        None => true,
        Some(node) => node == living.own || !living.all.iter().any(|other| other == node),
    };
    let free = heads.into_iter().filter(|(lane, line)| ours(lane) && line.owner.is_none());
    free.map(|(_, line)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nodes::{Owner, Request};

    fn line(id: &str, order: i64, node: Option<&str>) -> RequestLine {
        let request = Request { node: node.map(str::to_owned), ..Request::default() };
        RequestLine { id: id.into(), request, version: 0, order, owner: None, waited_for: true }
    }

    fn taken(lines: &[RequestLine], own: &str) -> Vec<String> {
        let all = ["a".to_owned(), "b".to_owned()];
        next(lines, Living { own, all: &all }).iter().map(|line| line.id.clone()).collect()
    }

    #[test]
    fn the_first_of_each_line_is_taken_and_the_next_after_its_result() {
        let mut lines =
            vec![line("1", 1, None), line("2", 2, None), line("3", 3, Some("a")), line("4", 4, Some("a"))];
        assert_eq!(taken(&lines, "a"), ["1", "3"]);
        assert_eq!(taken(&lines, "b"), ["1"]);
        lines[0].owner = Some(Owner::default());
        assert_eq!(taken(&lines, "a"), ["3"], "somebody is at the first: the second waits");
        lines[0].request.done = true;
        lines[2].request.done = true;
        assert_eq!(taken(&lines, "a"), ["2", "4"]);
    }

    #[test]
    fn one_to_a_node_that_does_not_live_is_for_anybody() {
        let lines = [line("1", 1, Some("gone")), line("2", 2, Some("b"))];
        assert_eq!(taken(&lines, "a"), ["1"]);
        assert_eq!(taken(&lines, "b"), ["1", "2"]);
    }
}
