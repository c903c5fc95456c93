//! Bar charts, drawn by hand: bars from left to right, one line per system, on a white ground.

use std::fmt::Write;

/// A line of a chart.
#[derive(Debug, Clone)]
pub(super) struct Bar {
    pub(super) label: String,
    /// Drawn one behind the other, in the colours of the legend.
    pub(super) parts: Vec<f64>,
    /// What stands behind the bar.
    pub(super) text: String,
    /// Ours: set in bold.
    pub(super) bold: bool,
    /// The colour of the legend that the first part has.
    pub(super) shade: usize,
}

#[derive(Debug)]
pub(super) struct Bars<'a> {
    pub(super) title: &'a str,
    pub(super) subtitle: &'a str,
    /// A colour and its meaning.
    pub(super) legend: &'a [(&'a str, &'a str)],
    pub(super) bars: Vec<Bar>,
}

const WIDTH: f64 = 1060.0;
const LEFT: f64 = 440.0;
const RIGHT: f64 = 120.0;
const TOP: f64 = 92.0;
const LINE: f64 = 22.0;
const THICK: f64 = 14.0;
const INK: &str = "#1f2328";
const GREY: &str = "#59636e";
const GRID: &str = "#e3e7eb";

impl Bars<'_> {
    pub(super) fn draw(&self) -> String {
        let height = TOP + LINE * self.bars.len() as f64 + 40.0;
        let most = self.bars.iter().map(|bar| bar.parts.iter().sum::<f64>()).fold(0.0, f64::max);
        let end = round_up(most);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif\" font-size=\"13\" role=\"img\" \
             aria-label=\"{0}\">\n<title>{0}</title>\n<rect width=\"{WIDTH}\" height=\"{height}\" fill=\"#ffffff\"/>\n",
            escape(self.title)
        );
        text(
            &mut svg,
            (20.0, 30.0),
            "start",
            &format!("fill=\"{INK}\" font-size=\"17\" font-weight=\"600\""),
            self.title,
        );
        text(&mut svg, (20.0, 50.0), "start", &format!("fill=\"{GREY}\""), self.subtitle);
        self.draw_legend(&mut svg);
        draw_grid(&mut svg, end, height);
        for (place, bar) in self.bars.iter().enumerate() {
            self.draw_bar(&mut svg, bar, TOP + LINE * place as f64, end);
        }
        svg.push_str("</svg>\n");
        svg
    }

    fn draw_legend(&self, svg: &mut String) {
        let mut x = 20.0;
        for (colour, meaning) in self.legend {
            put(
                svg,
                format_args!(
                    "<rect x=\"{x}\" y=\"62\" width=\"12\" height=\"12\" rx=\"2\" fill=\"{colour}\"/>\n"
                ),
            );
            text(svg, (x + 18.0, 73.0), "start", &format!("fill=\"{GREY}\""), meaning);
            x += 44.0 + wide(meaning);
        }
        debug_assert!(x <= WIDTH, "the legend is cut off");
    }

    fn draw_bar(&self, svg: &mut String, bar: &Bar, y: f64, end: f64) {
        let middle = y + LINE / 2.0 + 4.5;
        let weight = if bar.bold { " font-weight=\"600\"" } else { "" };
        debug_assert!(wide(&bar.label) < LEFT - 10.0, "`{}` is cut off", bar.label);
        text(svg, (LEFT - 10.0, middle), "end", &format!("fill=\"{INK}\"{weight}"), &bar.label);
        let mut x = LEFT;
        for (place, value) in bar.parts.iter().enumerate() {
            // A figure that was measured is never quite invisible.
            let width = (value / end * (WIDTH - LEFT - RIGHT)).max(1.0);
            let colour = self.legend.get(bar.shade + place).map_or(GREY, |(colour, _)| colour);
            let top = y + (LINE - THICK) / 2.0;
            put(
                svg,
                format_args!(
                    "<rect x=\"{x:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{THICK}\" rx=\"2\" fill=\"{colour}\"/>\n"
                ),
            );
            x += width;
        }
        text(svg, (x + 6.0, middle), "start", &format!("fill=\"{INK}\"{weight}"), &bar.text);
    }
}

/// About what a text takes, in any of the usual fonts.
fn wide(text: &str) -> f64 {
    7.0 * text.chars().count() as f64
}

fn draw_grid(svg: &mut String, end: f64, height: f64) {
    for step in 0..=4 {
        let value = end * f64::from(step) / 4.0;
        let x = LEFT + f64::from(step) / 4.0 * (WIDTH - LEFT - RIGHT);
        let (top, bottom) = (TOP - 4.0, height - 32.0);
        put(
            svg,
            format_args!("<line x1=\"{x}\" y1=\"{top}\" x2=\"{x}\" y2=\"{bottom}\" stroke=\"{GRID}\"/>\n"),
        );
        text(svg, (x, height - 14.0), "middle", &format!("fill=\"{GREY}\" font-size=\"12\""), &short(value));
    }
}

fn text(svg: &mut String, (x, y): (f64, f64), anchor: &str, style: &str, words: &str) {
    let words = escape(words);
    put(
        svg,
        format_args!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {style}>{words}</text>\n"),
    );
}

fn put(svg: &mut String, part: std::fmt::Arguments<'_>) {
    svg.write_fmt(part).expect("a string takes text");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The end of an axis: 1, 2, 4, 6 or 8 with zeros, not below the value.
fn round_up(value: f64) -> f64 {
    let base = 10_f64.powf(value.max(1e-9).log10().floor());
    [1.0, 2.0, 4.0, 6.0, 8.0]
        .into_iter()
        .map(|step| step * base)
        .find(|&end| end >= value)
        .unwrap_or(10.0 * base)
}

/// For an axis: 250000 as 250 k.
fn short(value: f64) -> String {
    let trim = |number: f64| {
        let text = format!("{number:.2}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    match value {
        1e6.. => format!("{} M", trim(value / 1e6)),
        1e3.. => format!("{} k", trim(value / 1e3)),
        _ => trim(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_on_a_round_number() {
        for (value, end) in
            [(1.0, 1.0), (1.1, 2.0), (85_000.0, 100_000.0), (553_000.0, 600_000.0), (0.3, 0.4)]
        {
            assert!((round_up(value) - end).abs() < end / 1e6, "{value}: {}", round_up(value));
        }
        assert!(round_up(0.0) > 0.0);
    }

    #[test]
    fn numbers_of_an_axis_are_short() {
        for (value, text) in
            [(0.0, "0"), (0.5, "0.5"), (250_000.0, "250 k"), (1_500_000.0, "1.5 M"), (1000.0, "1 k")]
        {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn a_chart_has_a_line_per_bar_and_no_raw_signs() {
        let bar = |label: &str, parts: Vec<f64>| Bar {
            label: label.to_owned(),
            parts,
            text: "x".to_owned(),
            bold: false,
            shade: 0,
        };
        let legend = [("#111111", "a & b"), ("#222222", "c")];
        let bars = vec![bar("one <1>", vec![1.0, 2.0]), bar("two", vec![0.0])];
        let svg = Bars { title: "t", subtitle: "s", legend: &legend, bars }.draw();
        assert!(svg.contains("one &lt;1&gt;") && svg.contains("a &amp; b") && !svg.contains("<1>"));
        // Ground, two of the legend, three parts.
        assert_eq!(svg.matches("<rect").count(), 6);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
    }
}
