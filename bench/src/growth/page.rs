//! What goes into the documentation: a table and a plot.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use super::plot::{Line, Plot};
use super::{NODES, Point};

const PAGE: &str = "docs/performance.md";
const PICTURE: &str = "docs/images/growth.svg";
const BEGIN: &str = "<!-- growth: written by `bench -- growth --docs` -->";
const END: &str = "<!-- /growth -->";

/// The whole table or none: what was measured of some of it would stand in the place of all.
pub(super) fn is_whole(rows: Option<u64>, case: Option<&str>) -> Result<()> {
    ensure!(
        rows.is_none() && case.is_none(),
        "--docs writes the whole table, and goes neither with --rows nor with --case"
    );
    Ok(())
}

/// Writes the table into the page, and the plot beside it.
pub(super) fn write(root: &Path, points: &[Point]) -> Result<()> {
    let page = root.join(PAGE);
    let text = std::fs::read_to_string(&page).with_context(|| PAGE.to_owned())?;
    let (before, rest) =
        text.split_once(BEGIN).with_context(|| format!("{PAGE} has no place for it: {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no {END}"))?;
    std::fs::write(&page, format!("{before}{BEGIN}\n{}\n{END}{after}", table(points)))?;
    std::fs::write(root.join(PICTURE), picture(points).svg())?;
    Ok(())
}

fn table(points: &[Point]) -> String {
    let mut nodes: Vec<usize> = points.iter().map(|point| point.nodes).collect();
    nodes.sort_unstable();
    nodes.dedup();
    let heads: Vec<String> =
        nodes.iter().map(|nodes| format!("{nodes} node{}", if *nodes == 1 { "" } else { "s" })).collect();
    let mut table = format!("| jobs | {} |\n|---|{}\n", heads.join(" | "), "---|".repeat(heads.len()));
    let mut jobs: Vec<u64> = points.iter().map(|point| point.jobs).collect();
    jobs.sort_unstable();
    jobs.dedup();
    for jobs in jobs {
        let cell = |nodes: &usize| {
            let found = points.iter().find(|point| point.jobs == jobs && point.nodes == *nodes);
            found.map_or_else(|| "–".to_owned(), |point| format!("{:.2} ms ({:.2})", point.ms, point.ratio))
        };
        let cells: Vec<String> = nodes.iter().map(cell).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(table, "| {jobs} | {} |", cells.join(" | "));
    }
    table + "\n![The time that a job takes, by the number of jobs and of nodes](images/growth.svg)"
}

fn picture(points: &[Point]) -> Plot {
    let line = |nodes: usize| Line {
        name: format!("{nodes} node{}", if nodes == 1 { "" } else { "s" }),
        // A thousand to a million: exact in a float.
        #[allow(clippy::cast_precision_loss)]
        points: points
            .iter()
            .filter(|point| point.nodes == nodes)
            .map(|point| (point.jobs as f64, point.ms))
            .collect(),
    };
    Plot {
        title: "Time per job".to_owned(),
        across: "jobs in the batch".to_owned(),
        up: "ms".to_owned(),
        lines: NODES.map(line).into_iter().filter(|line| !line.points.is_empty()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points() -> Vec<Point> {
        let point = |jobs, nodes, ms, ratio| Point { jobs, nodes, ms, ratio };
        vec![point(1_000, 1, 0.51, 1.1), point(1_000, 2, 0.6, 0.934), point(10_000, 1, 0.5, 1.12)]
    }

    #[test]
    fn the_table_and_the_plot_go_into_their_place_and_nowhere_else() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("docs/images")).unwrap();
        let page = dir.path().join(PAGE);
        std::fs::write(&page, format!("before\n{BEGIN}\nold\n{END}\nafter\n")).unwrap();
        write(dir.path(), &points()).unwrap();
        let text = std::fs::read_to_string(&page).unwrap();
        assert!(text.starts_with(&format!("before\n{BEGIN}\n| jobs | 1 node | 2 nodes |\n")), "{text}");
        assert!(
            text.contains("| 1000 | 0.51 ms (1.10) | 0.60 ms (0.93) |\n| 10000 | 0.50 ms (1.12) | – |\n"),
            "{text}"
        );
        assert!(text.ends_with(&format!("{END}\nafter\n")) && !text.contains("old"), "{text}");
        let svg = std::fs::read_to_string(dir.path().join(PICTURE)).unwrap();
        assert_eq!(svg.matches("<polyline").count(), 2);
        std::fs::write(&page, "no place").unwrap();
        assert!(write(dir.path(), &points()).unwrap_err().to_string().contains("no place for it"));
    }

    #[test]
    fn a_part_of_the_table_is_not_written() {
        assert!(is_whole(None, None).is_ok());
        for (rows, case) in [(Some(1_000), None), (None, Some("2 nodes"))] {
            let refused = is_whole(rows, case).unwrap_err().to_string();
            assert!(refused.contains("--rows") && refused.contains("--case"), "{refused}");
        }
    }
}
