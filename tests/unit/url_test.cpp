// Store URLs and lengths of time.
#include "store/contract/url.hpp"
#include <posthorn/error.hpp>
#include <posthorn/sqlite.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace posthorn::contract {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

template <typename Call>
std::string refusal(Call call)
{
    try {
        call();
        return "accepted";
    } catch (const error& refused) {
        EXPECT_EQ(refused.code(), error_code::invalid_argument);
        return refused.what();
    }
}

std::string refusal_of(std::string_view url)
{
    return refusal([&] { (void)store_url::parse(url); });
}

TEST(store_url, a_url_is_taken_apart)
{
    const auto url = store_url::parse("sqlite:/var/lib/orders.db?prefix=shop_&busy_timeout=5s");
    EXPECT_EQ(url.scheme, "sqlite");
    EXPECT_EQ(url.rest, "/var/lib/orders.db");
    EXPECT_EQ(url.parameters.size(), 2U);
    EXPECT_EQ(url.parameter("prefix", "none"), "shop_");
    EXPECT_EQ(url.parameter("busy_timeout", "none"), "5s");
    EXPECT_EQ(url.parameter("synchronous", "full"), "full");
}

TEST(store_url, the_first_colon_ends_the_scheme_and_the_first_question_mark_the_rest)
{
    EXPECT_EQ(store_url::parse("sqlite::memory:").rest, ":memory:");
    EXPECT_EQ(store_url::parse("sqlite:").rest, "");
    EXPECT_EQ(store_url::parse("sqlite:a?").parameters.size(), 0U);
    EXPECT_EQ(store_url::parse("sqlite:a?x=b?c=d").parameter("x", ""), "b?c=d");
    EXPECT_EQ(store_url::parse("sqlite:a?x=").parameter("x", "fallback"), "");
}

TEST(store_url, percent_signs_stand_for_bytes)
{
    const auto url = store_url::parse("sqlite:a%20b%3f%25?n%61me=%c3%BC%26");
    EXPECT_EQ(url.rest, "a b?%");
    EXPECT_EQ(url.parameter("name", ""), "ü&");
}

// Proves: F21
TEST(store_url, a_malformed_url_is_refused_with_the_piece_that_is_wrong)
{
    EXPECT_THAT(refusal_of("orders.db"), AllOf(HasSubstr("'orders.db'"), HasSubstr("sqlite:")));
    EXPECT_THAT(refusal_of(""), HasSubstr("not a store URL"));
    EXPECT_THAT(refusal_of(":memory:"), HasSubstr("not a store URL"));
    for (const std::string bad :
         {"sqlite:a%", "sqlite:a%2", "sqlite:a%zz", "sqlite:a%-1", "sqlite:a%+1", "sqlite:a% 1"})
        EXPECT_THAT(refusal_of(bad), HasSubstr("two hexadecimal digits")) << bad;
    EXPECT_THAT(refusal_of("sqlite:a?prefix"),
                AllOf(HasSubstr("'prefix'"), HasSubstr("name=value")));
    EXPECT_THAT(refusal_of("sqlite:a?=x"), HasSubstr("name=value"));
    EXPECT_THAT(refusal_of("sqlite:a?x=1&&y=2"), HasSubstr("name=value"));
    EXPECT_THAT(refusal_of("sqlite:a?x=1&x=2"), AllOf(HasSubstr("'x'"), HasSubstr("twice")));
}

// Proves: F21
TEST(store_url, an_unknown_parameter_is_answered_with_the_known_ones)
{
    const auto url = store_url::parse("sqlite:a?prefx=b");
    EXPECT_THAT(refusal([&] {
                    url.allow_only({"prefix", "busy_timeout"});
                }),
                AllOf(HasSubstr("'prefx'"), HasSubstr("prefix, busy_timeout")));
    EXPECT_EQ(refusal([&] { url.allow_only({"prefx"}); }), "accepted");
}

TEST(duration_text, numbers_with_a_unit_are_lengths_of_time)
{
    EXPECT_EQ(parse_duration("7us"), 7us);
    EXPECT_EQ(parse_duration("250ms"), 250ms);
    EXPECT_EQ(parse_duration("5s"), 5s);
    EXPECT_EQ(parse_duration("10m"), 10min);
    EXPECT_EQ(parse_duration("2h"), 2h);
    EXPECT_EQ(parse_duration("7d"), 168h);
    EXPECT_EQ(parse_duration("0s"), 0s);
    EXPECT_EQ(parse_duration("100000d"), 2'400'000h);
}

// Proves: F21
TEST(duration_text, anything_else_is_refused_with_examples)
{
    for (const std::string bad :
         {"", "5", "s", "-5s", "+5s", " 5s", "5 s", "5S", "5x", "5sec", "5.5s", "0x5s",
          "9999999999999999999s", "9223372036854775807s", "1000000000d"})
        EXPECT_THAT(refusal([&] { (void)parse_duration(bad); }),
                    AllOf(HasSubstr("'" + bad + "'"), HasSubstr("250ms")))
            << bad;
}

// Proves: F21
TEST(store_url, a_path_with_a_nul_byte_is_refused)
{
    EXPECT_THAT(refusal([] { (void)sqlite::open("sqlite:orders%00.db"); }), HasSubstr("NUL"));
}

TEST(store_url, an_error_shows_everything_but_the_password)
{
    EXPECT_EQ(without_password("mariadb://ada:hush@host:1/db?a=b"),
              "mariadb://ada:***@host:1/db?a=b");
    EXPECT_EQ(without_password("mariadb://ada:hu@sh/@host/db"), "mariadb://ada:***@host/db");
    for (const auto* open : {"sqlite:orders.db", "mariadb://ada@host:1/db"})
        EXPECT_EQ(without_password(open), open);
    EXPECT_THAT(refusal([] { (void)store_url::parse("mariadb://ada:hu%sh@host/db"); }),
                AllOf(HasSubstr("ada:***@host"), HasSubstr("hexadecimal")));
}

// Proves: OPS-04
TEST(store_url, no_error_tells_a_password_that_was_not_encoded)
{
    for (const std::string url :
         {"mariadb://ada:caNARY?x@host/db", "mariadb://ada:caNARY?caNARY=1@host/db",
          "mariadb://ada:12?caNARY@host/db", "mariadb://ada:x/caNARY?y@host/db",
          "mariadb://ada@host/db?caNARY@", "mariadb://ada:a%zzcaNARY@host/db", "://ada:caNARY@host",
          "caNARY@host", "mariadb://ada@host/db?password=caNARY%zz",
          "mariadb://ada@host/db?passwordcaNARY"})
        EXPECT_THAT(refusal_of(url), AllOf(Not(HasSubstr("caNARY")), Not("accepted"))) << url;
    EXPECT_THAT(refusal([] { (void)percent_decoded("caNARY%zz"); }), Not(HasSubstr("caNARY")));
    EXPECT_EQ(refusal_of("mariadb://ada@host:3306/db?x=a@b"), "accepted");
}

// Proves: OPS-04
TEST(store_url, a_url_is_shown_without_a_password_wherever_it_ends)
{
    EXPECT_EQ(without_password("mariadb://ada:hu?sh@host/db"), "mariadb://***");
    EXPECT_EQ(without_password("mariadb://ada:h/u@s?h@host/db"), "mariadb://***");
    EXPECT_EQ(without_password("mariadb://ada:hu/sh@host/db"), "mariadb://ada:***@host/db");
    EXPECT_EQ(without_password("postgresql://host/db?password=hush&schema=a"),
              "postgresql://host/db?password=***&schema=a");
    EXPECT_EQ(
        without_passwords("not expected: postgresql://ada:hu/sh@host/db 'mariadb://a:hush@h'"),
        "not expected: postgresql://ada:***@host/db 'mariadb://a:***@h'");
}

TEST(store_url, what_is_written_stays_available_for_taking_it_apart_further)
{
    const auto url = store_url::parse("mariadb://a%40b@host/d%2Fb?x=y");
    EXPECT_EQ(url.encoded_rest, "//a%40b@host/d%2Fb");
    EXPECT_EQ(url.rest, "//a@b@host/d/b");
}

} // namespace
} // namespace posthorn::contract
