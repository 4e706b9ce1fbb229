//! The charts, as SVG to be placed inside HTML.
//!
//! Each axis is mapped in [`axis`] (linear, logarithmic, or with ticks that a chart gives) and handed to plotters as plain
//! positions with ticks of our choice, so that every tick falls on a round value. [`frame`] draws axes and their contents, once for
//! a wide page and once for a narrow one.

pub(crate) mod axis;
pub(crate) mod frame;
pub(super) mod run;

use plotters::style::RGBColor;

/// Colours that the page's style sheet replaces, to follow light and dark.
pub(crate) const INK: RGBColor = RGBColor(1, 1, 1);
pub(crate) const GRID: RGBColor = RGBColor(2, 2, 2);
/// Colours that read on light and on dark.
pub(crate) const BLUE: RGBColor = RGBColor(59, 130, 246);
pub(crate) const AMBER: RGBColor = RGBColor(217, 119, 6);
pub(crate) const RED: RGBColor = RGBColor(239, 68, 68);
pub(crate) const GREEN: RGBColor = RGBColor(22, 163, 74);

/// One for each thing of a list, over again after the last.
pub(crate) const COLOURS: [RGBColor; 7] =
    [BLUE, AMBER, GREEN, RED, RGBColor(147, 51, 234), RGBColor(8, 145, 178), RGBColor(219, 39, 119)];

/// The colour of the thing at this place in a list.
pub(crate) fn colour(place: usize) -> RGBColor {
    COLOURS[place % COLOURS.len()]
}
