/* What comes from files can't become markup, nor end a block of data. */
#include "page/markup.h"
#include "../../support/ok.h"

#include <criterion/criterion.h>
#include <string.h>

static void expect(cleave_markup *made, const char *wanted) {
    cr_assert_not(made->failed);
    cr_expect_str_eq(made->text, wanted);
    cleave_markup_free(made);
}

Test(markup, what_is_put_in_is_escaped_and_the_format_is_not) {
    cleave_markup made = {0};
    cleave_markup_put(&made, "<b title=\"%s\">%s</b>", "\" onclick='x'", "</b><script>&amp;");
    expect(&made, "<b title=\"&quot; onclick=&#39;x&#39;\">&lt;/b&gt;&lt;script&gt;&amp;amp;</b>");
}

Test(markup, numbers_are_as_printf_has_them) {
    cleave_markup made = {0};
    cleave_markup_put(&made, "%d %lld %.1f %g %+.2f %5d %%", -3, 1LL << 40, 0.25, 1e-9, 2.0, 7);
    expect(&made, "-3 1099511627776 0.2 1e-09 +2.00     7 %");
}

/* Each is one U+FFFD: a control character; a byte that begins nothing; a character that is cut
   short; "/" in two bytes; half of a pair; beyond U+10FFFF.  What follows is kept. */
Test(markup, what_is_no_text_is_replaced_and_what_is_stays) {
    cleave_markup made = {0};
    cleave_markup_put(&made, "%s",
                      "\x01 \x80 \xc3( \xc0\xaf \xed\xa0\x80 \xf4\x90\x80\x80 é €\t\xe2");
#define BAD "\xef\xbf\xbd"
    expect(&made,
           BAD " " BAD " " BAD "( " BAD BAD " " BAD BAD BAD " " BAD BAD BAD BAD " é €\t" BAD);
#undef BAD
}

/* It is still the same JSON: the escapes stand within strings. */
Test(markup, data_cannot_end_its_block_nor_a_line) {
    cleave_markup made = {0};
    cleave_json_writer w = {0};
    cleave_json *document;
    const char *name = "</script><!--&\xe2\x80\xa8\xe2\x80\xa9\xe2\x82\xac\"\\";
    const char *value;
    cleave_json_begin_array(&w, true);
    cleave_json_put_string(&w, name);
    cleave_json_end_array(&w);
    cleave_markup_put_data(&made, "names", &w);
    const char *begin = strchr(made.text, '['), *end = strrchr(made.text, ']');
    cr_expect_null(w.text, "the writer is freed");
    cr_assert_not_null(begin);
    size_t n = (size_t)(end + 1 - begin);
    for (const char *c = begin; c < end; c++)
        cr_expect(strchr("<>&", *c) == NULL, "%.*s", (int)n, begin);
    cr_expect_null(strstr(made.text, "\xe2\x80\xa8"));
    cr_expect_null(strstr(made.text, "\xe2\x80\xa9"));
    OK(cleave_json_parse, begin, n, "data", &document);
    cleave_json_cursor root = cleave_json_root(document), at = cleave_json_element(&root, 0);
    OK(cleave_json_string, &at, &value);
    cr_expect_str_eq(value, name);
    cleave_json_free(document);
    cleave_markup_free(&made);
}
