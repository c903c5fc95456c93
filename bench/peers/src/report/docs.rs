//! The part of docs/benchmarks.md between two marks is the newest run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::charts::Chart;
use super::markdown;
use crate::results::Results;

const BEGIN: &str = "<!-- Written by bench/peers/run: begin -->\n";
const END: &str = "<!-- Written by bench/peers/run: end -->";

pub(super) fn write(results: &Results, charts: &[Chart], page: &Path) -> Result<()> {
    let text = fs::read_to_string(page).with_context(|| format!("read {}", page.display()))?;
    let part = markdown::sections(results, charts, "../bench/results/", 3);
    let text = replaced(&text, &part).with_context(|| format!("find the marks in {}", page.display()))?;
    super::put(page, &text)
}

fn replaced(text: &str, part: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}{part}\n{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let text = format!("# A\n{BEGIN}old\n{END}\nrest\n");
        let new = replaced(&text, "new").unwrap();
        assert_eq!(new, format!("# A\n{BEGIN}new\n{END}\nrest\n"));
        assert_eq!(replaced(&new, "new").unwrap(), new, "writing twice changes nothing");
        assert_eq!(replaced("no marks", "new"), None);
    }

    #[test]
    fn the_page_has_the_marks() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks.md");
        assert!(replaced(&fs::read_to_string(page).unwrap(), "").is_some());
    }
}
