//! The text of a row that says when a task wakes.

use windlass_core::Wakes;

/// Formats the wake times as `lua/row.lua` reads them.
pub(super) fn wake_text(wakes: Wakes) -> String {
    match (wakes.wall, wakes.elapsed) {
        (None, None) => "-".to_owned(),
        (Some(wall), None) => wall.to_string(),
        (wall, Some(elapsed)) => format!("{}~{elapsed}", wall.map_or(String::new(), |at| at.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_line_has_its_place() {
        let text = |wall, elapsed| wake_text(Wakes { wall, elapsed });
        let all = [text(None, None), text(Some(7), None), text(None, Some(8)), text(Some(7), Some(8))];
        assert_eq!(all, ["-", "7", "~8", "7~8"]);
    }
}
