//! Self-contained pages: no network, no scripts, no fonts.
//!
//! A page is a heading and sections; a section is text, figures and tables. All of it is HTML in
//! one file with its style. Figures are inline SVG.

mod lines;
mod sheet;
mod table;

use std::fmt::Display;

pub(crate) use lines::{Axis, Line, LineChart, LineStyle, Marker, Scale, legend, text};
pub(crate) use sheet::Sheet;
pub(crate) use table::{Cell, Table};

/// A page to be written as HTML.
pub(crate) struct Page {
    title: String,
    body: String,
}

impl Page {
    /// A page with a heading and a subtitle.
    pub(crate) fn new(title: &str, lead: &str) -> Page {
        let body = format!(
            "<header>\n<h1>{}</h1>\n<p class=\"lead\">{}</p>\n</header>\n",
            escape(title),
            escape(lead)
        );
        Page { title: title.to_owned(), body }
    }

    /// Begins a section.
    pub(crate) fn section(&mut self, heading: &str) {
        self.push(&format!("<h2>{}</h2>", escape(heading)));
    }

    /// Adds a heading within a section.
    pub(crate) fn subsection(&mut self, heading: &str) {
        self.push(&format!("<h3>{}</h3>", escape(heading)));
    }

    /// Adds a paragraph.
    pub(crate) fn text(&mut self, text: &str) {
        self.push(&format!("<p>{}</p>", escape(text)));
    }

    /// Adds a figure: panels side by side, with common elements above them and a caption below.
    /// `name` identifies the figure in the page, for links and checks.
    pub(crate) fn figure(&mut self, name: &str, common: &str, panels: &[String], caption: &str) {
        self.push(&format!(
            "<figure id=\"{name}\">\n{common}\n<div class=\"panels\">\n{}</div>\n\
             <figcaption>{}</figcaption>\n</figure>",
            panels.concat(),
            escape(caption)
        ));
    }

    /// Adds text that keeps its lines and columns.
    pub(crate) fn preformatted(&mut self, text: &str) {
        self.push(&format!("<pre class=\"scroll\">{}</pre>", escape(text)));
    }

    /// Adds HTML unchanged.
    pub(crate) fn push(&mut self, html: &str) {
        self.body.push_str(html);
        self.body.push('\n');
    }

    /// The page as an HTML document.
    pub(crate) fn to_html(&self) -> String {
        let Page { title, body } = self;
        // The empty icon keeps browsers from asking a server for one.
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n\
             </head>\n<body>\n{body}</body>\n</html>\n",
            escape(title)
        )
    }
}

/// Escapes text for HTML and SVG, also within quoted attributes.
pub(crate) fn escape(text: impl Display) -> String {
    let text = text.to_string();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Formats a whole number with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

const STYLE: &str = include_str!("style.css");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(
            [0, 999, 1000, 16_384, 1_000_000].map(grouped).join(" "),
            "0 999 1,000 16,384 1,000,000"
        );
    }

    #[test]
    fn text_is_escaped_wherever_it_stands() {
        let mut page = Page::new("a < b", "\"c\" & d");
        page.section("<s>");
        page.text("<p>");
        page.figure("f", "", &["<svg></svg>".to_owned()], "<caption>");
        let html = page.to_html();
        for text in ["<title>a &lt; b", "&quot;c&quot; &amp; d", "&lt;s&gt;", "&lt;p&gt;"] {
            assert!(html.contains(text), "{text}");
        }
        assert!(html.contains("<svg></svg>") && html.contains("&lt;caption&gt;"));
    }
}
