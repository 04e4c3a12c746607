//! Tables, as HTML.

use std::fmt::Write;

use super::escape;

/// A table whose first column and first line are headings.
pub(crate) struct Table {
    pub(crate) caption: String,
    /// A class of the page's style, such as `grid`; may be empty.
    pub(crate) class: &'static str,
    pub(crate) head: Vec<String>,
    rows: Vec<(&'static str, String, Vec<Cell>)>,
}

/// The content of a field.
#[derive(Clone, Default)]
pub(crate) struct Cell {
    pub(crate) text: String,
    /// A smaller note below the text; may be empty.
    pub(crate) note: String,
    /// A class of the page's style; may be empty.
    pub(crate) class: &'static str,
}

impl Table {
    pub(crate) fn new(caption: &str, class: &'static str, head: Vec<String>) -> Table {
        Table { caption: caption.to_owned(), class, head, rows: Vec::new() }
    }

    /// Adds a line; `class` may be empty.
    pub(crate) fn row(&mut self, class: &'static str, heading: &str, cells: Vec<Cell>) {
        self.rows.push((class, heading.to_owned(), cells));
    }

    /// The table as HTML.
    pub(crate) fn to_html(&self) -> String {
        let mut html = format!(
            "<div class=\"scroll\"><table{}>\n<caption>{}</caption>\n<thead><tr>",
            class(self.class),
            escape(&self.caption)
        );
        for heading in &self.head {
            let _ = write!(html, "<th scope=\"col\">{}</th>", escape(heading));
        }
        html.push_str("</tr></thead>\n<tbody>\n");
        for (row_class, heading, cells) in &self.rows {
            let _ =
                write!(html, "<tr{}><th scope=\"row\">{}</th>", class(row_class), escape(heading));
            for cell in cells {
                let _ = write!(html, "<td{}>{}", class(cell.class), escape(&cell.text));
                if !cell.note.is_empty() {
                    let _ = write!(html, "<small>{}</small>", escape(&cell.note));
                }
                html.push_str("</td>");
            }
            html.push_str("</tr>\n");
        }
        html + "</tbody>\n</table></div>"
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell { text, ..Cell::default() }
    }
}

fn class(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" class=\"{name}\"") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_notes_and_classes() {
        let mut table = Table::new("t", "grid", vec![String::new(), "8".to_owned()]);
        let cell = Cell { text: "<1>".to_owned(), note: "n".to_owned(), class: "first" };
        table.row("", "pull", vec![cell]);
        let html = table.to_html();
        assert!(html.contains("<td class=\"first\">&lt;1&gt;<small>n</small></td>"), "{html}");
        assert!(html.contains("<tr><th scope=\"row\">pull</th>"), "{html}");
    }
}
