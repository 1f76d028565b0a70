use super::*;

/// What the model gets for this; questions and the like in angle brackets.
fn shown(input: &str) -> String {
    let mut shown = String::new();
    Filter::new(80, 24).feed(input.as_bytes(), &mut |step| match step {
        Step::Show(bytes) => shown.push_str(std::str::from_utf8(bytes).unwrap()),
        other => write!(shown, "<{other:?}>").unwrap(),
    });
    shown
}

#[test]
fn what_is_known_passes() {
    for same in [
        "plain text, wide 日本, combining e\u{301}\r\n",
        "\x1b[5;7H\x1b[2J\x1b[1K\x1b[3X\x1b7\x1b8\x1b=\x1b>",
        "\x1b[?25l\x1b[?1h\x1b[?2004h",
        "\x1b[1;38:2:1:2:3;4m",
    ] {
        assert_eq!(shown(same), same);
    }
}

#[test]
fn what_could_harm_does_not() {
    for nothing in [
        "\x1b[8;9999;9999t",
        "\x1b]52;c;aGk=\x07",
        "\x1bPq#0;2;0;0;0\x1b\\",
        "\x1b_x\x1b\\",
        "\x1b^x\x1b\\",
        "\x1bXx\x1b\\",
        "\x1bktitle\x1b\\",
        "\x1b[>1u",
        "\x1b[?u",
        "\x1b[3J",
        "\x1b[?1000h",
        "\x1b[999999999b",
        "\x00\x07\x1b[5i\x1b#8",
        "\x1b[1$y\x1b[1 q",
    ] {
        assert_eq!(shown(nothing), "", "{nothing:?}");
    }
}

#[test]
fn counts_are_no_larger_than_the_screen() {
    assert_eq!(shown("\x1b[99999999S\x1b[9999999999999999999999L"), "\x1b[24S<Lines(76, 24)>");
    assert_eq!(shown("\x1b[99999999P\x1b[99999999@\x1b[99999999X"), "\x1b[80P\x1b[80@\x1b[80X");
    assert_eq!(shown("\x1b[99999;99999H\x1b[99999C"), "\x1b[24;80H\x1b[80C");
    assert_eq!(shown("x\x1b[999999999b"), "x<Repeat('x', 80, Placing { wrap: true, insert: false })>");
    assert_eq!(shown("\x1b[2;999r\x1b[r"), "<Region(2, 24)><Region(0, 0)>");
}

#[test]
fn what_the_model_lacks_is_written_otherwise() {
    assert_eq!(
        shown("\x1b[2;3f\x1b[s\x1b[u\x1b[4`\x1b[2a\x1b[2e"),
        "\x1b[2;3H\x1b7\x1b8\x1b[4G\x1b[2C\x1b[2B"
    );
    assert_eq!(shown("\x1b(0lqk\x1b(Bq\x1b)0\x0ex\x0fx"), "┌─┐q│x");
    assert_eq!(shown("\x1b7\x1b(0\x1b8q"), "\x1b7\x1b8q");
    assert_eq!(shown("\x1bD\x1bE"), "\n\r\n");
    assert_eq!(shown("\x1b[?1047hx\x1b[?1047l"), "<Alternate>x\x1b[?47l");
    assert_eq!(shown("\x1b[?1049hx\x1b[?1049h\x1b[?1049l"), "<Alternate>x\x1b[?1049l");
    assert_eq!(shown("-\x1b[3b+\r\x1b[3b"), "-<Repeat('-', 3, Placing { wrap: true, insert: false })>+\r");
    assert_eq!(shown("\t\x1b[3I\x1b[2Z"), "<Tab(1)><Tab(3)><BackTab(2)>");
    let overwrite = "<Place('x', Placing { wrap: false, insert: false })>";
    assert_eq!(shown("\x1b[?7lx\x1b[?7hy"), format!("{overwrite}y"));
}

#[test]
fn questions_are_recognised() {
    let asked = "<Ask(PrimaryAttributes)><Ask(SecondaryAttributes)><Ask(Status)><Ask(CursorPosition)>";
    assert_eq!(shown("\x1b[c\x1b[>c\x1b[5n\x1b[6n"), asked);
    assert_eq!(shown("\x1b[0c\x1b[>0c"), "<Ask(PrimaryAttributes)><Ask(SecondaryAttributes)>");
    // Nobody answers these, as most terminals do not.
    assert_eq!(shown("\x1b[?1$p\x1b[>q\x1b[=c\x1b[?6n\x1b[21t\x1b]11;?\x07"), "");
}

#[test]
fn a_title_is_short_and_clean() {
    assert_eq!(shown("\x1b]0;a\u{1}b\x07\x1b]2;c\x1b\\"), "<Title(\"ab\")><Title(\"c\")>");
    let long = shown(&format!("\x1b]2;{}\x07", "€".repeat(300)));
    assert_eq!(long.matches('€').count(), TITLE_BYTES / 3);
}

#[test]
fn broken_bytes_are_shown() {
    let mut shown = Vec::new();
    Filter::new(80, 24).feed(b"a\xffb", &mut |step| match step {
        Step::Show(bytes) => shown.extend_from_slice(bytes),
        other => panic!("{other:?}"),
    });
    assert_eq!(String::from_utf8(shown).unwrap(), "a\u{fdd0}b");
    assert_eq!(BROKEN.width(), Some(1));
}

#[test]
fn what_is_not_paid_for_is_left_out() {
    let mut filter = Filter::new(80, 24);
    let mut cleared = 0;
    filter.feed("\x1b[2J".repeat(10_000).as_bytes(), &mut |_| cleared += 1);
    assert_eq!(cleared + filter.left_out(), 10_000);
    assert!((5000..6000).contains(&cleared), "{cleared}");
    // A program that draws as much as it clears is never short of cells.
    let mut filter = Filter::new(80, 24);
    filter.feed("\x1b[H\x1b[2Jtwelve bytes".repeat(10_000).as_bytes(), &mut |_| ());
    assert_eq!(filter.left_out(), 0);
}
