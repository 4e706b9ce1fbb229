//! The picture, as animated SVG.

use super::Explained;
use super::growth::Growth;
use super::layout::Layout;
use std::fmt::Write;

/// Seconds at which defects appear, regions begin to grow and the matching is drawn, and how long growth and one play
/// take.
/// play takes.
const DEFECTS: f64 = 0.8;
const GROW: f64 = 1.8;
const GROWING: f64 = 4.5;
const MATCHED: f64 = GROW + GROWING + 0.4;
const PLAY: f64 = 11.0;

/// Colours, from the page's variables or the file's own.
const STYLE: &str = "
.edge { stroke: #9ca3af; stroke-width: 1; opacity: 0.32; }
.node { fill: #9ca3af; opacity: 0.6; }
.region { stroke: #3b82f6; stroke-width: 5; stroke-linecap: round; opacity: 0.55; }
.defect { fill: #ef4444; }
.match { stroke: #16a34a; stroke-width: 6; stroke-linecap: round; }
@media (prefers-reduced-motion: reduce) { .moving { display: none; } }
";

/// An attribute that is `before` from the start of each play, and changes to the element's value within `takes` seconds
/// from `at`.
fn animated(attribute: &str, before: &str, after: &str, at: f64, takes: f64) -> String {
    format!(
        "<set attributeName=\"{attribute}\" to=\"{before}\" begin=\"play.begin\"/>\
         <animate attributeName=\"{attribute}\" from=\"{before}\" to=\"{after}\" begin=\"play.begin+{at:.2}s\" \
         dur=\"{:.2}s\" fill=\"freeze\"/>",
        takes.max(0.05)
    )
}

/// The picture. Without animation it shows the end: defects, regions and matching.
pub(super) fn svg(explained: &Explained<'_>, growth: &Growth) -> String {
    let layout = Layout::new(explained.model);
    let edges = explained.graph.edges();
    let place = |detector: u32| layout.places[detector as usize];
    // The other end of a boundary edge is outside.
    let ends = |index: usize| {
        let edge = &edges[index];
        (place(edge.u), edge.v.map_or_else(|| layout.outside(edge.u), place))
    };
    let mut out = String::new();
    let Layout { width, height, step, .. } = layout;
    // Writing to a String cannot fail.
    let _ = write!(
        out,
        "<svg viewBox=\"0 0 {width:.0} {height:.0}\" role=\"img\" aria-label=\"A shot decoded by matching\">\
         <style>{STYLE}</style>\
         <rect class=\"moving\" width=\"0\" height=\"0\"><animate id=\"play\" attributeName=\"width\" from=\"0\" to=\"0\" \
         begin=\"0s;play.end+1s\" dur=\"{PLAY}s\"/></rect>"
    );
    for index in 0..edges.len() {
        let ((x1, y1), (x2, y2)) = ends(index);
        let _ =
            write!(out, "<line class=\"edge\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>");
    }
    let dot = (step * 0.08).clamp(1.2, 4.0);
    for (x, y) in &layout.places {
        let _ = write!(out, "<circle class=\"node\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{dot:.1}\"/>");
    }
    let speed = GROWING / growth.end.max(f64::MIN_POSITIVE);
    for cover in &growth.covers {
        let (u, v) = ends(cover.edge);
        let (from, to) = if edges[cover.edge].u == cover.from { (u, v) } else { (v, u) };
        let end = (from.0 + (to.0 - from.0) * cover.share, from.1 + (to.1 - from.1) * cover.share);
        let (at, takes) = (GROW + cover.begin * speed, cover.takes * speed);
        let _ = write!(
            out,
            "<line class=\"region\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\">{}{}{}</line>",
            from.0,
            from.1,
            end.0,
            end.1,
            // A round cap would show even on a line of length 0.
            animated("opacity", "0", "0.55", at, 0.05),
            animated("x2", &format!("{:.1}", from.0), &format!("{:.1}", end.0), at, takes),
            animated("y2", &format!("{:.1}", from.1), &format!("{:.1}", end.1), at, takes)
        );
    }
    for (order, &index) in explained.correction.iter().enumerate() {
        let ((x1, y1), (x2, y2)) = ends(index as usize);
        let at = MATCHED + 1.2 * order as f64 / explained.correction.len().max(1) as f64;
        let _ = write!(
            out,
            "<line class=\"match\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\">{}</line>",
            animated("opacity", "0", "1", at, 0.3)
        );
    }
    let radius = (step * 0.16).clamp(4.0, 9.0);
    for &defect in explained.defects {
        let (x, y) = place(defect);
        let _ = write!(
            out,
            "<circle class=\"defect\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{radius:.1}\"><title>D{defect}</title>{}</circle>",
            animated("r", "0", &format!("{radius:.1}"), DEFECTS, 0.4)
        );
    }
    out + "</svg>"
}
