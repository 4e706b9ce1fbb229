//! Charts as PDF pages: an SVG's contents as PDF's lines and letters (record 0028).

use anyhow::{Context, Result};
use pdf_writer::writers::ExtGraphicsState;
use pdf_writer::{Content, Finish, Name, Pdf, Rect, Ref, Str, TextStr};
use roxmltree::{Document, Node};
use std::collections::BTreeSet;

/// The colours of ink, axes and grid lines on paper.
const PAPER: [(&str, [f32; 3]); 3] = [
    ("#010101", [0.12, 0.16, 0.22]),
    ("#010101 line", [0.42, 0.45, 0.5]),
    ("#020202", [0.886, 0.898, 0.918]),
];

const FONT: Name<'static> = Name(b"F");

/// Widths of Helvetica's letters, from the blank on, in thousandths of the font's size.
const WIDTHS: [u16; 95] = [
    278, 278, 355, 556, 556, 889, 667, 191, 333, 333, 389, 584, 278, 333, 278, 278, 556, 556, 556, 556, 556,
    556, 556, 556, 556, 556, 278, 278, 584, 584, 584, 556, 1015, 667, 667, 722, 722, 667, 611, 778, 722, 278,
    500, 667, 556, 833, 722, 778, 667, 778, 722, 667, 611, 722, 667, 944, 667, 667, 611, 278, 278, 278, 469,
    556, 333, 556, 556, 500, 556, 556, 278, 556, 556, 222, 222, 500, 222, 833, 556, 556, 556, 556, 333, 500,
    278, 556, 500, 722, 500, 500, 500, 334, 260, 334, 584,
];

/// Converts a chart of an SVG file that `page::svg_file` made.
///
/// # Errors
/// The file is not such an SVG.
pub(crate) fn from_svg(svg: &str, title: &str, made_by: &str) -> Result<Vec<u8>> {
    let document = Document::parse(svg).context("the chart's SVG")?;
    let root = document.root_element();
    let (width, height) = (length(&root, "width"), length(&root, "height"));
    let mut drawn = Drawn { content: Content::new(), height, opacities: BTreeSet::new() };
    for node in root.descendants().filter(Node::is_element) {
        drawn.element(&node);
    }
    let Drawn { content, opacities, .. } = drawn;
    let [catalog, pages, page, font, contents, info] = [1, 2, 3, 4, 5, 6].map(Ref::new);
    let mut pdf = Pdf::new();
    pdf.catalog(catalog).pages(pages);
    pdf.pages(pages).kids([page]).count(1);
    let mut sheet = pdf.page(page);
    sheet.media_box(Rect::new(0.0, 0.0, width, height)).parent(pages).contents(contents);
    let mut resources = sheet.resources();
    resources.fonts().pair(FONT, font);
    let mut states = resources.ext_g_states();
    for &percent in &opacities {
        let alpha = f32::from(percent) / 100.0;
        let name = state(percent);
        let mut with: ExtGraphicsState<'_> = states.insert(Name(name.as_bytes())).start();
        with.stroking_alpha(alpha).non_stroking_alpha(alpha);
    }
    states.finish();
    resources.finish();
    sheet.finish();
    pdf.type1_font(font).base_font(Name(b"Helvetica")).encoding_predefined(Name(b"WinAnsiEncoding"));
    pdf.stream(contents, &content.finish());
    pdf.document_info(info).title(TextStr(title)).subject(TextStr(made_by)).creator(TextStr("ringcall"));
    Ok(pdf.finish())
}

/// The name of the graphics state for an opacity.
fn state(percent: u8) -> String {
    format!("O{percent}")
}

struct Drawn {
    content: Content,
    /// Height of the page, on which y goes up.
    height: f32,
    /// Percents.
    opacities: BTreeSet<u8>,
}

fn length(node: &Node<'_, '_>, name: &str) -> f32 {
    node.attribute(name).and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// A colour as `#rrggbb` or `rgb(r, g, b)`; `None` for no colour.
fn colour(text: &str, line: bool) -> Option<[f32; 3]> {
    let named = if line { format!("{text} line") } else { text.to_owned() };
    let known = |name: &str| PAPER.iter().find(|paper| paper.0 == name).map(|paper| paper.1);
    if let Some(paper) = known(&named).or_else(|| known(text)) {
        return Some(paper);
    }
    if let Some(hex) = text.strip_prefix('#') {
        let part = |at: usize| u8::from_str_radix(hex.get(at..at + 2)?, 16).ok();
        return Some([part(0)?, part(2)?, part(4)?].map(|value| f32::from(value) / 255.0));
    }
    let inner = text.strip_prefix("rgb(")?.strip_suffix(')')?;
    let parts: Vec<f32> = inner.split(',').filter_map(|part| part.trim().parse().ok()).collect();
    parts.try_into().ok().map(|rgb: [f32; 3]| rgb.map(|value| value / 255.0))
}

/// A text in the font's encoding, which covers Latin letters.
fn encoded(text: &str) -> Vec<u8> {
    text.chars().map(|c| u8::try_from(u32::from(c)).unwrap_or(b'?')).collect()
}

fn text_width(letters: &[u8]) -> f32 {
    let width =
        |letter: &u8| usize::from(*letter).checked_sub(32).and_then(|at| WIDTHS.get(at)).unwrap_or(&556);
    letters.iter().map(|letter| f32::from(*width(letter)) / 1000.0).sum()
}

impl Drawn {
    fn element(&mut self, node: &Node<'_, '_>) {
        let opacity = node.attribute("opacity").and_then(|text| text.parse::<f32>().ok()).unwrap_or(1.0);
        let fill = node.attribute("fill").and_then(|text| colour(text, false));
        let stroke = node.attribute("stroke").and_then(|text| colour(text, true));
        // Areas for the mouse are invisible.
        if opacity <= 0.0 || (fill.is_none() && stroke.is_none()) {
            return;
        }
        let percent = (opacity * 100.0).round().clamp(1.0, 100.0) as u8;
        self.opacities.insert(percent);
        self.content.save_state();
        self.content.set_parameters(Name(state(percent).as_bytes()));
        if let Some([r, g, b]) = fill {
            self.content.set_fill_rgb(r, g, b);
        }
        if let Some([r, g, b]) = stroke {
            self.content.set_stroke_rgb(r, g, b).set_line_width(length(node, "stroke-width").max(0.5));
        }
        if node.tag_name().name() == "text" {
            self.text(node);
        } else if self.path(node) {
            match (fill.is_some(), stroke.is_some()) {
                (true, true) => self.content.fill_nonzero_and_stroke(),
                (true, false) => self.content.fill_nonzero(),
                _ => self.content.stroke(),
            };
        }
        self.content.restore_state();
    }

    /// Adds the element's path. Returns whether it has one.
    fn path(&mut self, node: &Node<'_, '_>) -> bool {
        let of = |name| length(node, name);
        let up = |y: f32| self.height - y;
        match node.tag_name().name() {
            "rect" => {
                let (y, height) = (up(of("y") + of("height")), of("height"));
                self.content.rect(of("x"), y, of("width"), height);
            }
            "line" => {
                let [y1, y2] = [up(of("y1")), up(of("y2"))];
                self.content.move_to(of("x1"), y1).line_to(of("x2"), y2);
            }
            name @ ("polyline" | "polygon") => {
                let pairs = node.attribute("points").unwrap_or_default().split_whitespace();
                let points: Vec<(f32, f32)> = pairs
                    .filter_map(|pair| pair.split_once(','))
                    .filter_map(|(x, y)| Some((x.parse().ok()?, up(y.parse().ok()?))))
                    .collect();
                let Some((&(x, y), rest)) = points.split_first() else { return false };
                self.content.move_to(x, y);
                for &(x, y) in rest {
                    self.content.line_to(x, y);
                }
                if name == "polygon" {
                    self.content.close_path();
                }
            }
            "circle" => {
                let (x, y, r) = (of("cx"), up(of("cy")), of("r"));
                // The distance of the handles of a circle's four curves from their ends.
                let k = r * 0.552_285;
                self.content.move_to(x + r, y);
                self.content.cubic_to(x + r, y + k, x + k, y + r, x, y + r);
                self.content.cubic_to(x - k, y + r, x - r, y + k, x - r, y);
                self.content.cubic_to(x - r, y - k, x - k, y - r, x, y - r);
                self.content.cubic_to(x + k, y - r, x + r, y - k, x + r, y).close_path();
            }
            _ => return false,
        }
        true
    }

    fn text(&mut self, node: &Node<'_, '_>) {
        let letters = encoded(node.text().unwrap_or_default().trim());
        let size = length(node, "font-size");
        // The letter x is about half as high as the font's size.
        let down = node.attribute("dy").map_or(0.0, |dy| {
            let of = |unit: &str| dy.strip_suffix(unit).and_then(|number| number.parse::<f32>().ok());
            of("em").or_else(|| of("ex").map(|ex| ex * 0.523)).unwrap_or(0.0) * size
        });
        let back = match node.attribute("text-anchor") {
            Some("middle") => 0.5,
            Some("end") => 1.0,
            _ => 0.0,
        } * text_width(&letters)
            * size;
        let (x, y) = (length(node, "x"), self.height - length(node, "y"));
        // A title of the y axis is rotated to be read from below.
        let matrix = match node.attribute("transform") {
            Some(turned) if turned.starts_with("rotate(270") => [0.0, 1.0, -1.0, 0.0, x + down, y - back],
            _ => [1.0, 0.0, 0.0, 1.0, x - back, y - down],
        };
        self.content.begin_text().set_font(FONT, size).set_text_matrix(matrix).show(Str(&letters)).end_text();
    }
}

#[cfg(test)]
mod tests {
    use super::super::{sample, to_svg};
    use super::*;

    #[test]
    fn a_chart_has_its_words_and_its_lines() {
        let svg = to_svg(&sample::full()).expect("a chart");
        let pdf = from_svg(&svg, "Ringcall run", "ringcall run, by somebody").expect("a page");
        let text = String::from_utf8_lossy(&pdf);
        assert!(text.starts_with("%PDF-1.") && text.trim_end().ends_with("%%EOF"), "{text}");
        // A text with a micro sign, which is one byte of the font's encoding, is written in hexadecimal.
        for words in
            ["<6C6174656E63792C20B573>", "(requests per bin)", "(Ringcall run)", "/Helvetica", "/O100 gs"]
        {
            assert!(text.contains(words), "{words}: {text}");
        }
        let bars = svg.matches("<rect ").count();
        assert!(text.matches(" re\n").count() + 4 >= bars, "{bars} bars");
        assert!(from_svg("no picture", "", "").is_err());
    }

    #[test]
    fn colours_are_read_and_ink_is_dark_on_paper() {
        assert_eq!(colour("#FF0080", false), Some([1.0, 0.0, 128.0 / 255.0]));
        assert_eq!(colour("rgb(255, 0, 51)", true), Some([1.0, 0.0, 0.2]));
        assert_eq!(colour("none", false), None);
        assert_ne!(colour("#010101", true), colour("#010101", false));
        assert_eq!(colour("#020202", true), Some(PAPER[2].1));
    }

    #[test]
    fn texts_are_as_wide_as_the_font_says() {
        assert!((text_width(b"0.01") - 1.946).abs() < 1e-6);
        assert_eq!(encoded("1 µs ν"), b"1 \xb5s ?");
    }
}
