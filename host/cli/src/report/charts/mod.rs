//! Charts of reports, as SVG to be placed inside HTML.
//!
//! Each [`axis`] maps values (linearly, logarithmically, or with a chart's own ticks) and passes them to plotters as
//! plain positions with chosen ticks, so that every tick falls on a round value. [`frame`] draws axes and their
//! contents, once for wide and once for narrow pages.

pub(crate) mod axis;
pub(crate) mod frame;
pub(super) mod run;

use plotters::style::RGBColor;

/// Placeholder colours that the page's style sheet replaces, for light and dark mode.
pub(crate) const INK: RGBColor = RGBColor(1, 1, 1);
pub(crate) const GRID: RGBColor = RGBColor(2, 2, 2);
/// Colours that are readable in light and dark mode.
pub(crate) const BLUE: RGBColor = RGBColor(59, 130, 246);
pub(crate) const AMBER: RGBColor = RGBColor(217, 119, 6);
pub(crate) const RED: RGBColor = RGBColor(239, 68, 68);
pub(crate) const GREEN: RGBColor = RGBColor(22, 163, 74);

/// Colours for the items of a list, which repeat after the last one.
pub(crate) const COLOURS: [RGBColor; 7] =
    [BLUE, AMBER, GREEN, RED, RGBColor(147, 51, 234), RGBColor(8, 145, 178), RGBColor(219, 39, 119)];

/// The colour for an item of a list.
pub(crate) fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}
