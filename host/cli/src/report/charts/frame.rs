//! Chart frame: axes, and a chart inside them, at the two widths of a page.

use super::axis::{Axis, Positions};
use super::{GRID, INK};
use plotters::coord::Shift;
use plotters::prelude::*;
use std::fmt::Write;
use std::io;

/// plotters divides the size by 1.24 in the SVG.
pub(crate) const FONT: (&str, i32) = ("sans-serif", 16);

/// Approximate pixels of a letter; digits take fewer.
const LETTER: f64 = 7.6;

pub(crate) type Failure = DrawingAreaErrorKind<io::Error>;
pub(crate) type Chart<'a, 'b> = ChartContext<'a, SVGBackend<'b>, Cartesian2d<Positions, Positions>>;

/// A chart's SVG; `None` if the report has no data for it.
pub(crate) type Svg = Option<Result<String, Failure>>;

/// The width of screen for which a chart is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Screen {
    Wide,
    /// A phone: letters of the same size in less space.
    Narrow,
}

impl Screen {
    pub(crate) const fn width(self) -> u32 {
        match self {
            Self::Wide => 1040,
            Self::Narrow => 380,
        }
    }

    /// The value for this screen.
    pub(crate) fn pick<T>(self, wide: T, narrow: T) -> T {
        match self {
            Self::Wide => wide,
            Self::Narrow => narrow,
        }
    }
}

pub(crate) fn text_width(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

/// The text for a point while the mouse is over it, or for a screen reader.
pub(crate) struct Hover {
    /// The point's position on the axes.
    pub(crate) at: (f64, f64),
    pub(crate) text: String,
}

/// The texts of all points of a chart.
pub(crate) type Said = Vec<Hover>;

pub(crate) struct Frame<'a> {
    pub(crate) screen: Screen,
    pub(crate) height: u32,
    pub(crate) x: &'a Axis,
    pub(crate) y: &'a Axis,
}

/// The pixels left of a y axis, for a label and a title.
fn margin(y: &Axis) -> u32 {
    let widest = y.thinned(1e9, |_| 0.0).iter().map(|tick| text_width(&tick.1)).fold(0.0, f64::max);
    let title = if y.title.is_empty() { 0.0 } else { 22.0 };
    (widest + title + 16.0) as u32
}

/// The pixels of an x axis next to this y axis.
pub(crate) fn plot_width(screen: Screen, y: &Axis) -> f64 {
    f64::from(screen.width().saturating_sub(margin(y) + 8 + RIGHT))
}

impl Frame<'_> {
    /// The pixels of the x axis.
    pub(crate) fn plot_width(&self) -> f64 {
        plot_width(self.screen, self.y)
    }

    /// Draws the axes and the contents that `body` adds, without a background.
    pub(crate) fn draw(
        &self,
        body: impl FnOnce(&mut Chart<'_, '_>, &mut Said) -> Result<(), Failure>,
    ) -> Result<String, Failure> {
        let &Self { screen, height, x, y } = self;
        let mut svg = String::new();
        let mut said = Vec::new();
        let mut places = Vec::new();
        {
            let size = (screen.width(), height);
            let area: DrawingArea<SVGBackend<'_>, Shift> =
                SVGBackend::with_string(&mut svg, size).into_drawing_area();
            let plot_height = f64::from(height.saturating_sub(BELOW + 16));
            let across = x.positions(self.plot_width(), text_width);
            let up = y.positions(plot_height, |_| 14.0);
            let (across_labels, up_labels) = (across.clone(), up.clone());
            let mut chart = ChartBuilder::on(&area)
                .margin(8)
                .margin_right(RIGHT)
                .x_label_area_size(BELOW)
                .y_label_area_size(margin(y))
                .build_cartesian_2d(across, up)?;
            chart
                .configure_mesh()
                .bold_line_style(GRID)
                .light_line_style(TRANSPARENT)
                .axis_style(INK)
                .label_style(FONT.into_font().color(&INK))
                .axis_desc_style(FONT.into_font().color(&INK))
                .x_labels(32)
                .y_labels(32)
                .x_label_formatter(&|v| across_labels.label(*v))
                .y_label_formatter(&|v| up_labels.label(*v))
                .x_desc(x.title)
                .y_desc(y.title)
                .draw()?;
            let (right, above) = (5.0 * x.span() / self.plot_width(), 5.0 * y.span() / plot_height.max(1.0));
            let marks = x.minor.iter().map(|&at| [(at, y.from), (at, y.from + above)]);
            let marks = marks.chain(y.minor.iter().map(|&at| [(x.from, at), (x.from + right, at)]));
            chart.draw_series(marks.map(|mark| PathElement::new(mark, INK)))?;
            body(&mut chart, &mut said)?;
            places.extend(said.iter().map(|hover| chart.backend_coord(&hover.at)));
            area.present()?;
        }
        // HTML implies the name space, and the page must not name any address.
        let mut svg = svg.replace(" xmlns=\"http://www.w3.org/2000/svg\"", " role=\"img\"");
        if let Some(end) = svg.rfind("</svg>") {
            let mut points = String::new();
            for (hover, (x, y)) in said.iter().zip(places) {
                let title = maud::html! { title { (hover.text) } }.into_string();
                // Writing to a String cannot fail.
                let _ =
                    writeln!(points, "<circle cx=\"{x}\" cy=\"{y}\" r=\"9\" opacity=\"0\">{title}</circle>");
            }
            svg.insert_str(end, &points);
        }
        Ok(svg)
    }
}

const BELOW: u32 = 48;
const RIGHT: u32 = 24;

/// The smallest positive value, and the largest value.
pub(crate) fn extent(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.filter(|v| v.is_finite()).fold((f64::INFINITY, 0.0), |(least, most), v| {
        (if v > 0.0 { least.min(v) } else { least }, most.max(v))
    })
}
