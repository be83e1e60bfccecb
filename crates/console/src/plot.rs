//! Plot of counts over time, as SVG without inline style.

use maud::{Markup, html};

use crate::units::number;

/// Units of the drawing, which a browser stretches to the width of the page.
const WIDTH: u32 = 960;
const HEIGHT: u32 = 120;
/// Colours of the stylesheet for series; those of further series are used again.
const COLOURS: usize = 7;

/// Counts of one series, the oldest first.
pub(crate) struct Series {
    pub(crate) name: &'static str,
    pub(crate) counts: Vec<u64>,
}

/// Stacked bars of several series.
pub(crate) struct Bars {
    pub(crate) series: Vec<Series>,
    /// Failed requests, the first part of each bar.
    pub(crate) errors: Vec<u64>,
    /// Labels at the left and at the right end.
    pub(crate) ends: [&'static str; 2],
    /// Sentence for readers who do not see the plot.
    pub(crate) description: String,
}

impl Bars {
    /// Returns the parts of a bar from the bottom: class, name and count.
    fn parts(&self, at: usize) -> impl Iterator<Item = (String, &'static str, u64)> {
        let count = move |counts: &[u64]| counts.get(at).copied().unwrap_or(0);
        let errors = ("errors".to_owned(), "failed", count(&self.errors));
        let series = self.series.iter().enumerate();
        let series = series.map(move |(at, it)| (class(at), it.name, count(&it.counts)));
        std::iter::once(errors).chain(series).filter(|(_, _, count)| *count > 0)
    }

    fn total(&self, at: usize) -> u64 {
        self.parts(at).fold(0, |sum, (_, _, count)| sum.saturating_add(count))
    }
}

/// Returns the class of a series.
fn class(at: usize) -> String {
    format!("series-{}", at % COLOURS)
}

/// Sums counts of minutes into bars.
pub(crate) fn sum_into(counts: &[u64], bars: usize) -> Vec<u64> {
    let per_bar = counts.len().div_ceil(bars.max(1)).max(1);
    // From the end, so that the last bar is whole.
    let mut sums: Vec<u64> = counts.rchunks(per_bar).map(|part| part.iter().sum()).collect();
    sums.reverse();
    sums
}

/// Returns the smallest round number that is not below a count.
fn round_up(count: u64) -> u64 {
    let units = (0..20).map(|power| 10_u64.saturating_pow(power));
    let mut candidates = units.flat_map(|unit| [1, 2, 5].map(|factor| unit.saturating_mul(factor)));
    candidates.find(|candidate| *candidate >= count.max(4)).unwrap_or(u64::MAX)
}

/// Returns a part of a length, rounded.
fn scaled(count: u64, max: u64, length: u32) -> u32 {
    let length = u128::from(length) * u128::from(count) / u128::from(max.max(1));
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// Renders the plot. Labels are text beside the drawing, so that they keep their size.
pub(crate) fn render(bars: &Bars) -> Markup {
    let len = bars.series.iter().map(|it| it.counts.len()).max().unwrap_or(0);
    let max = round_up((0..len).map(|at| bars.total(at)).max().unwrap_or(0));
    html! {
        figure.plot {
            div.scale aria-hidden="true" { @for value in [max, max / 2, 0] { span { (number(value)) } } }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(bars.description) {
                @for y in [0, HEIGHT / 2, HEIGHT] { line.grid x1="0" x2=(WIDTH) y1=(y) y2=(y) {} }
                @for at in 0..len { (bar(bars, at, len, max)) }
            }
            figcaption { span { (bars.ends[0]) } span { (bars.ends[1]) } }
            ul.legend { @for (class, name) in legend(bars) { li { span.swatch.(class) {} (name) } } }
        }
    }
}

/// Returns the classes and names of the parts that the plot has.
fn legend(bars: &Bars) -> Vec<(String, &'static str)> {
    let has_errors = bars.errors.iter().any(|count| *count > 0);
    let errors = has_errors.then(|| ("errors".to_owned(), "failed"));
    let series = bars.series.iter().enumerate();
    let shown = series.filter(|(_, it)| it.counts.iter().any(|count| *count > 0));
    shown.map(|(at, it)| (class(at), it.name)).chain(errors).collect()
}

/// Renders a bar: its parts on top of each other.
fn bar(bars: &Bars, at: usize, len: usize, max: u64) -> Markup {
    let count = u32::try_from(len.max(1)).unwrap_or(1);
    let x = u32::try_from(at).unwrap_or(0) * WIDTH / count;
    let width = (WIDTH / count).saturating_sub(3).max(1);
    let mut below = 0_u64;
    let parts: Vec<(String, u32, u32, String)> = bars
        .parts(at)
        .map(|(class, name, count)| {
            let bottom = scaled(below, max, HEIGHT);
            below = below.saturating_add(count);
            let height = scaled(below, max, HEIGHT).saturating_sub(bottom).max(1);
            (
                class,
                HEIGHT.saturating_sub(bottom + height),
                height,
                format!("{} {name}", number(count)),
            )
        })
        .collect();
    html! { @for (class, y, height, title) in parts {
        rect.(class) x=(x) y=(y) width=(width) height=(height) { title { (title) } }
    } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_summed_from_the_end() {
        let counts: Vec<u64> = (1..=5).collect();
        assert_eq!(sum_into(&counts, 2), [3, 12]);
        assert_eq!(sum_into(&[], 3), Vec::<u64>::new());
        assert_eq!((round_up(0), round_up(6), round_up(101)), (5, 10, 200));
    }

    #[test]
    fn series_are_stacked_and_named_in_the_legend() {
        let series = vec![
            Series { name: "bus", counts: vec![0, 6] },
            Series { name: "idle", counts: vec![0, 0] },
            Series { name: "mcp", counts: vec![5, 2] },
        ];
        let bars =
            Bars { series, errors: vec![0, 2], ends: ["a", "b"], description: "x".to_owned() };
        let svg = render(&bars).into_string();
        for part in [
            r#"<rect class="errors" x="480" y="96" width="477" height="24"><title>2 failed"#,
            r#"<rect class="series-0" x="480" y="24" width="477" height="72"><title>6 bus"#,
            r#"<rect class="series-2" x="480" y="0" width="477" height="24"><title>2 mcp"#,
            r#"<li><span class="swatch series-0"></span>bus</li><li><span class="swatch series-2"></span>mcp</li><li><span class="swatch errors"></span>failed</li>"#,
        ] {
            assert!(svg.contains(part), "{part} is not in {svg}");
        }
    }

    #[test]
    fn a_plot_has_no_style_and_stays_in_its_frame() {
        let series = vec![Series { name: "x", counts: vec![0, 5_000_000_000_000_000_000, 6] }];
        let errors = vec![0, 5_000_000_000_000_000_000, 1];
        let bars = Bars { series, errors, ends: ["a", "b"], description: "<x>".to_owned() };
        let svg = render(&bars).into_string();
        assert!(!svg.contains("style=") && !svg.contains("<x>"), "{svg}");
        assert!(svg.contains("y=\"0\"") && !svg.contains("y=\"-"), "{svg}");
    }
}
