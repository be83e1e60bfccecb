//! Plot of counts over time, as SVG without inline style.

use maud::{Markup, html};

use crate::units::number;

/// Units of the drawing, which a browser stretches to the width of the page.
const WIDTH: u32 = 960;
const HEIGHT: u32 = 120;

/// Bars of a plot: requests, and the failed ones among them.
pub(crate) struct Bars {
    /// Counts, the oldest first.
    pub(crate) counts: Vec<(u64, u64)>,
    /// Labels at the left and at the right end.
    pub(crate) ends: [&'static str; 2],
    /// Sentence for readers who do not see the plot.
    pub(crate) description: String,
}

/// Sums counts of minutes into bars.
pub(crate) fn sum_into(counts: &[(u64, u64)], bars: usize) -> Vec<(u64, u64)> {
    let per_bar = counts.len().div_ceil(bars.max(1)).max(1);
    let sum =
        |part: &[(u64, u64)]| part.iter().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    // From the end, so that the last bar is whole.
    let mut sums: Vec<_> = counts.rchunks(per_bar).map(sum).collect();
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
    let max = round_up(bars.counts.iter().map(|it| it.0).max().unwrap_or(0));
    let count = u32::try_from(bars.counts.len().max(1)).unwrap_or(1);
    let x = |at: usize| u32::try_from(at).unwrap_or(0) * WIDTH / count;
    let width = (WIDTH / count).saturating_sub(3).max(1);
    html! {
        figure.plot {
            div.scale aria-hidden="true" { @for value in [max, max / 2, 0] { span { (number(value)) } } }
            svg viewBox=(format!("0 0 {WIDTH} {HEIGHT}")) preserveAspectRatio="none" role="img" aria-label=(bars.description) {
                @for y in [0, HEIGHT / 2, HEIGHT] { line.grid x1="0" x2=(WIDTH) y1=(y) y2=(y) {} }
                @for (at, (requests, errors)) in bars.counts.iter().enumerate() {
                    @if *requests > 0 {
                        @let height = scaled(*requests, max, HEIGHT).max(1);
                        rect.series x=(x(at)) y=(HEIGHT - height) width=(width) height=(height) { title { (number(*requests)) " requests, " (number(*errors)) " failed" } }
                        @if *errors > 0 {
                            @let failed = scaled(*errors, max, HEIGHT).max(1);
                            rect.errors x=(x(at)) y=(HEIGHT - failed) width=(width) height=(failed) {}
                        }
                    }
                }
            }
            figcaption { span { (bars.ends[0]) } span { (bars.ends[1]) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_summed_from_the_end() {
        let counts: Vec<(u64, u64)> = (1..=5).map(|at| (at, 0)).collect();
        assert_eq!(sum_into(&counts, 2), [(3, 0), (12, 0)]);
        assert_eq!(sum_into(&[], 3), []);
        assert_eq!((round_up(0), round_up(6), round_up(101)), (5, 10, 200));
    }

    #[test]
    fn a_plot_has_no_style_and_stays_in_its_frame() {
        let counts = vec![(0, 0), (5_000_000_000_000_000_000, 5_000_000_000_000_000_000), (7, 1)];
        let bars = Bars { counts, ends: ["a", "b"], description: "<x>".to_owned() };
        let svg = render(&bars).into_string();
        assert!(!svg.contains("style=") && !svg.contains("<x>"), "{svg}");
        assert!(svg.contains(&format!("height=\"{HEIGHT}\"")), "{svg}");
    }
}
