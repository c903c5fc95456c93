//! Files stay short. A file that has grown past the usual length is listed in the ratchet with a ceiling that may
//! be lowered by the fixer but raised only by hand, in a commit that says why.

use std::fs;

use super::Finding;
use super::tree::{RATCHET, Tree};
use crate::cargo;

/// Above this a file needs a row.
const USUAL: usize = 400;
/// Above this no row helps: split the file by verb.
const LONGEST: usize = 800;
/// A ceiling this far above the file is no longer a ceiling.
const SLACK: usize = 50;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let rows = read_rows(&tree.ratchet, &mut findings);
    for (path, lines) in lengths(tree) {
        let ceiling = rows.iter().find(|row| row.path == path).map(|row| row.ceiling);
        if let Some(message) = judge(lines, ceiling) {
            findings.push(Finding::in_file(path, message));
        }
    }
    for row in rows.iter().filter(|row| !lengths(tree).any(|(path, _)| path == row.path)) {
        findings.push(Finding::at(RATCHET, row.line, format!("{} is gone: remove its row", row.path)));
    }
    findings
}

/// Lowers ceilings to the present lengths and removes rows that are not needed; never raises or adds one.
pub(crate) fn lower() -> Result<(), String> {
    let tree = Tree::load()?;
    let lowered = lowered(&tree);
    if lowered == tree.ratchet {
        println!("nothing to lower");
        return Ok(());
    }
    println!("lowered {RATCHET}");
    fs::write(cargo::root().join(RATCHET), lowered).map_err(|error| format!("{RATCHET}: {error}"))
}

struct Row<'a> {
    path: &'a str,
    ceiling: usize,
    line: usize,
}

impl<'a> Row<'a> {
    /// Absent for a row that is not `path ceiling`.
    fn parse(text: &'a str, line: usize) -> Option<Self> {
        let (path, ceiling) = text.trim().rsplit_once(' ')?;
        Some(Self { path: path.trim_end(), ceiling: ceiling.parse().ok()?, line })
    }
}

fn is_row(line: &str) -> bool {
    !line.trim().is_empty() && !line.starts_with('#')
}

fn read_rows<'a>(ratchet: &'a str, findings: &mut Vec<Finding>) -> Vec<Row<'a>> {
    let mut rows: Vec<Row<'a>> = Vec::new();
    for (index, text) in ratchet.lines().enumerate().filter(|(_, text)| is_row(text)) {
        let line = index + 1;
        match Row::parse(text, line) {
            None => findings.push(Finding::at(RATCHET, line, "a row is a path and a ceiling")),
            Some(row) if rows.iter().any(|other| other.path == row.path) => {
                findings.push(Finding::at(RATCHET, line, format!("{} is listed twice", row.path)));
            }
            Some(row) => rows.push(row),
        }
    }
    rows
}

fn judge(lines: usize, ceiling: Option<usize>) -> Option<String> {
    match ceiling {
        _ if lines > LONGEST => Some(format!("{lines} lines, more than {LONGEST}: split it by verb")),
        None if lines > USUAL => {
            Some(format!("{lines} lines, more than {USUAL}: split it, or list it in {RATCHET}"))
        }
        Some(ceiling) if ceiling > LONGEST => Some(format!("its ceiling in {RATCHET} is above {LONGEST}")),
        Some(ceiling) if lines > ceiling => {
            Some(format!("{lines} lines, more than its ceiling of {ceiling} in {RATCHET}"))
        }
        Some(_) if lines <= USUAL => Some(format!("now {lines} lines: remove its row from {RATCHET}")),
        Some(ceiling) if lines + SLACK <= ceiling => {
            Some(format!("now {lines} lines: lower its ceiling of {ceiling} in {RATCHET}"))
        }
        _ => None,
    }
}

fn lowered(tree: &Tree) -> String {
    let kept = tree.ratchet.lines().filter_map(|text| {
        let row = if is_row(text) { Row::parse(text, 0) } else { None };
        // Comments stay, and so does what cannot be read: that is for a person to mend.
        let Some(row) = row else { return Some(text.to_owned()) };
        let (_, lines) = lengths(tree).find(|(path, _)| *path == row.path)?;
        (lines > USUAL).then(|| format!("{} {}", row.path, lines.min(row.ceiling)))
    });
    kept.map(|row| row + "\n").collect()
}

fn lengths(tree: &Tree) -> impl Iterator<Item = (&str, usize)> {
    let sources = tree.files.iter().filter(|file| file.source.is_some());
    sources.map(|file| (file.path.as_str(), file.text.lines().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tree with one file of so many lines.
    fn tree(lines: usize, ratchet: &str) -> Tree {
        Tree { ratchet: ratchet.to_owned(), ..Tree::of(&[("a.rs", &"\n".repeat(lines))]) }
    }

    fn check_one(lines: usize, ratchet: &str) -> Option<String> {
        let findings = check(&tree(lines, ratchet));
        assert!(findings.len() <= 1, "{findings:?}");
        findings.first().map(Finding::to_string)
    }

    #[test]
    fn short_and_listed_files_pass() {
        assert_eq!(check_one(400, ""), None);
        assert_eq!(check_one(401, "# why\n\na.rs 401\n"), None);
        assert_eq!(check_one(500, "a.rs 549\n"), None);
        assert_eq!(check_one(800, "a.rs 800\n"), None);
    }

    #[test]
    fn long_files_and_stale_rows_fail() {
        for (lines, ratchet, expected) in [
            (401, "", "list it"),
            (501, "a.rs 500\n", "more than its ceiling"),
            (801, "a.rs 801\n", "split it by verb"),
            (500, "a.rs 801\n", "ceiling in xtask/ratchet.txt is above 800"),
            (500, "a.rs 550\n", "lower its ceiling"),
            (400, "a.rs 410\n", "remove its row"),
            (1, "b.rs 450\n", "b.rs is gone"),
            (1, "b.rs\n", "a row is a path and a ceiling"),
            (450, "a.rs 450\na.rs 460\n", "listed twice"),
        ] {
            let found = check_one(lines, ratchet).unwrap_or_default();
            assert!(found.contains(expected), "{lines} lines, {ratchet:?}: {found:?}");
        }
    }

    #[test]
    fn the_fixer_only_lowers() {
        assert_eq!(lowered(&tree(450, "# why\na.rs 600\n")), "# why\na.rs 450\n");
        assert_eq!(lowered(&tree(450, "a.rs 420\n")), "a.rs 420\n");
        assert_eq!(lowered(&tree(450, "")), "");
        assert_eq!(lowered(&tree(300, "a.rs 600\nb.rs 500\n")), "");
    }
}
