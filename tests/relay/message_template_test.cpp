// Templates of destinations and keys.
#include <posthorn/error.hpp>
#include <posthorn/relay.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace posthorn {
namespace {

using ::testing::HasSubstr;

delivery order()
{
    delivery result;
    result.receipt.id = *message_id::parse("01890a5d-ac96-774b-bcce-b302099a8057");
    result.topic = "orders.placed.eu";
    result.ordering_key = "customer 7";
    result.headers = {{"region", "eu/west"}};
    return result;
}

std::string filled(std::string_view text)
{
    return message_template(text).filled(order(), "tenant-42");
}

std::string complaint_about(std::string_view text)
{
    try {
        (void)message_template(text);
    } catch (const error& problem) {
        EXPECT_EQ(problem.code(), error_code::invalid_argument);
        return problem.what();
    }
    return "none";
}

// Proves: TRN-03
TEST(message_templates, take_what_a_message_says_of_itself)
{
    EXPECT_EQ(filled("shop"), "shop");
    EXPECT_EQ(filled("shop.{topic}"), "shop.orders.placed.eu");
    EXPECT_EQ(filled("{topic.1}/{topic.3}"), "orders/eu");
    EXPECT_EQ(filled("{key}@{store}"), "customer 7@tenant-42");
    EXPECT_EQ(filled("{id}"), "01890a5d-ac96-774b-bcce-b302099a8057");
    EXPECT_EQ(filled("{header.Region}"), "eu/west");
    EXPECT_EQ(filled("{{{topic.2}}}"), "{placed}");
    EXPECT_TRUE(message_template("").empty());
    EXPECT_TRUE(message_template().empty());
}

// Proves: TRN-03
TEST(message_templates, cannot_change_where_a_url_leads)
{
    EXPECT_EQ(filled("https://shop.example/{header.region}?for={key}"),
              "https://shop.example/eu%2Fwest?for=customer%207");
    EXPECT_EQ(filled("HTTP://shop.example/{header.region}#{key}"),
              "HTTP://shop.example/eu%2Fwest#customer%207");
    EXPECT_EQ(filled("hTTps://shop.example?{key}"), "hTTps://shop.example?customer%207");
}

std::string filled_with_key(std::string_view text, std::string_view key)
{
    auto which = order();
    which.ordering_key = key;
    try {
        return message_template(text).filled(which);
    } catch (const permanent_failure& failure) {
        return failure.what();
    }
}

// Proves: TRN-03
TEST(message_templates, refuse_values_that_change_the_path_of_a_url)
{
    constexpr auto dots = "'.' or '..'";
    for (const auto* key : {".", "..", "../admin", "a/../../admin", "..\\admin", "a/."}) {
        EXPECT_THAT(filled_with_key("https://a.example/hooks/{key}/in", key), HasSubstr(dots));
        EXPECT_THAT(filled_with_key("HTTPS://a.example/hooks/{key}", key), HasSubstr(dots)) << key;
        EXPECT_THAT(filled_with_key("https://a.example/{key}?x=1", key), HasSubstr(dots)) << key;
        EXPECT_EQ(filled_with_key("shop/{key}", key), std::string("shop/") + key);
    }
    EXPECT_THAT(filled_with_key("https://a.example/.{key}", "."), HasSubstr(dots));
    EXPECT_THAT(filled_with_key("https://a.example/%2E{key}/x", "."), HasSubstr(dots));
    EXPECT_THAT(filled_with_key("https://a.example/{key}{key}/x", "."), HasSubstr(dots));
    EXPECT_EQ(filled_with_key("https://a.example/v.{key}", "."), "https://a.example/v..");
    EXPECT_EQ(filled_with_key("https://a.example/{key}", "..."), "https://a.example/...");
    EXPECT_EQ(filled_with_key("https://a.example/?k={key}", ".."), "https://a.example/?k=..");
    EXPECT_EQ(filled_with_key("https://a.example/../{key}", "7"), "https://a.example/../7");
}

// Proves: TRN-03
TEST(message_templates, refuse_a_place_in_front_of_the_path_of_a_url)
{
    for (const auto* text :
         {"https://{key}", "https://{key}.example/", "http://a.example{key}", "HTTPS://{key}/",
          "https://a.example:{key}/", "https://{key}@a.example/", "http:{key}", "Https:/{key}"})
        EXPECT_THAT(complaint_about(text), HasSubstr("in front of its URL's path")) << text;
    EXPECT_EQ(complaint_about("http{key}"), "none"); // a queue may be called so
    EXPECT_THAT(filled_with_key("{header.scheme}://{key}/", "evil.example"), HasSubstr("header"));
}

// Proves: TRN-03
TEST(message_templates, keep_the_rules_of_urls_behind_a_beginning_from_the_message)
{
    auto which = order();
    which.headers["base"] = "HTTPS://shop.example";
    which.headers["scheme"] = "http";
    EXPECT_EQ(message_template("{header.base}/{key}").filled(which),
              "HTTPS://shop.example/customer%207");
    EXPECT_THROW((void)message_template("{header.base}{key}").filled(which), permanent_failure);
    EXPECT_THROW((void)message_template("{header.scheme}://{key}/").filled(which),
                 permanent_failure);
}

// Proves: TRN-03
TEST(message_templates, that_cannot_be_read_are_refused_with_the_place)
{
    EXPECT_THAT(complaint_about("a{what}"), HasSubstr("'{what}'"));
    EXPECT_THAT(complaint_about("{topic.0}"), HasSubstr("'{topic.0}'"));
    EXPECT_THAT(complaint_about("{topic.x}"), HasSubstr("{header.NAME}"));
    EXPECT_THAT(complaint_about("{header.}"), HasSubstr("'{header.}'"));
    EXPECT_THAT(complaint_about("shop.{topic"), HasSubstr("'{topic'"));
    EXPECT_THAT(complaint_about("shop}"), HasSubstr("'}}'"));
}

// Proves: TRN-03
TEST(message_templates, fail_a_message_for_good_that_lacks_what_they_ask_for)
{
    const auto lacks = [](std::string_view text, const std::string& what) {
        auto which = order();
        which.ordering_key.clear();
        try {
            (void)message_template(text).filled(which);
            ADD_FAILURE() << text;
        } catch (const permanent_failure& failure) {
            EXPECT_THAT(failure.what(), HasSubstr(what));
        }
    };
    lacks("{topic.4}", "part 4");
    lacks("{key}", "ordering key");
    lacks("{store}", "store");
    lacks("{header.colour}", "'colour'");
}

} // namespace
} // namespace posthorn
