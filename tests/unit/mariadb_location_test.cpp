// MariaDB's URLs: split before they are decoded, refused by name, and silent about passwords.
#include "store/contract/url.hpp"
#include "store/mariadb/location.hpp"
#include "store/mariadb/schema.hpp"
#include <posthorn/error.hpp>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

namespace posthorn::mariadb {
namespace {

using namespace std::chrono_literals;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

settings parsed(const std::string& url)
{
    return parse_location(url, {});
}

std::string refusal(const std::string& url)
{
    try {
        (void)parsed(url);
        return "taken";
    } catch (const error& failure) {
        EXPECT_EQ(failure.code(), error_code::invalid_argument);
        return failure.what();
    }
}

TEST(mariadb_url, names_server_user_and_database)
{
    const auto full = parsed("mariadb://ada:secret@db.example:3307/shop");
    EXPECT_EQ(full.user, "ada");
    EXPECT_EQ(full.password, "secret");
    EXPECT_EQ(full.host, "db.example");
    EXPECT_EQ(full.port, 3307U);
    EXPECT_EQ(full.database, "shop");
    EXPECT_EQ(full.prefix, "posthorn_");

    const auto short_one = parsed("mariadb:///shop");
    EXPECT_EQ(short_one.host, "127.0.0.1");
    EXPECT_EQ(short_one.port, 3306U);
    EXPECT_EQ(short_one.user, "");

    const auto version_6 = parsed("mariadb://[::1]:3308/shop");
    EXPECT_EQ(version_6.host, "::1");
    EXPECT_EQ(version_6.port, 3308U);
}

TEST(mariadb_url, may_hold_any_character_in_every_part)
{
    const auto odd = parsed("mariadb://a%40b:%2F%3A%40%3F%23%25@host/d%2Fb?socket=%2Ftmp%2Fs%26s");
    EXPECT_EQ(odd.user, "a@b");
    EXPECT_EQ(odd.password, "/:@?#%");
    EXPECT_EQ(odd.database, "d/b");
    EXPECT_EQ(odd.socket, "/tmp/s&s");
}

TEST(mariadb_url, sets_limits_and_encryption)
{
    const auto all = parsed("mariadb://host/db?prefix=shop_&pool=3&connect_timeout=1s&"
                            "lock_timeout=2s&statement_timeout=3s&tls=verify&tls_ca=ca&"
                            "tls_cert=cert&tls_key=key");
    EXPECT_EQ(all.prefix, "shop_");
    EXPECT_EQ(all.pool, 3U);
    EXPECT_EQ(all.connect_timeout, 1s);
    EXPECT_EQ(all.lock_timeout, 2s);
    EXPECT_EQ(all.statement_timeout, 3s);
    EXPECT_EQ(all.tls, settings::encryption::verify);
    EXPECT_EQ(all.tls_ca + all.tls_cert + all.tls_key, "cacertkey");
}

TEST(mariadb_url, is_refused_with_what_would_be_right)
{
    EXPECT_THAT(refusal("mariadb:shop"), HasSubstr("mariadb://user@host"));
    EXPECT_THAT(refusal("mariadb://host"), HasSubstr("names no database"));
    EXPECT_THAT(refusal("mariadb://host/"), HasSubstr("names no database"));
    EXPECT_THAT(refusal("mariadb://host:0/db"), HasSubstr("port=0"));
    EXPECT_THAT(refusal("mariadb://host:99999/db"), HasSubstr("65535"));
    EXPECT_THAT(refusal("mariadb://host/db?pool=none"), HasSubstr("pool=none"));
    EXPECT_THAT(refusal("mariadb://host/db?tls=maybe"), HasSubstr("prefer"));
    EXPECT_THAT(refusal("mariadb://host/db?prefix=A"), HasSubstr("prefix"));
    EXPECT_THAT(refusal("mariadb://host/db?charset=latin1"), HasSubstr("unknown parameter"));
    EXPECT_THAT(refusal("mariadb://host/db?password_file=/nowhere/at/all"),
                HasSubstr("cannot be read"));
    EXPECT_THAT(refusal("mariadb://h%00st/db"), HasSubstr("NUL"));
}

// Nothing is ignored because it is written in another way.
TEST(mariadb_url, is_refused_with_options_that_are_written_otherwise)
{
    for (const auto* options :
         {"?SSL-MODE=REQUIRED", "?ssl-mode=REQUIRED", "?ssl=1", "?TLS=require", "?Tls=verify",
          "? tls =require", "?%20tls%20=require", "?tls%20=require", "?+tls=require"})
        EXPECT_THAT(refusal(std::string("mariadb://host/db") + options),
                    HasSubstr("unknown parameter"))
            << options;
    for (const auto* options : {"?tls=REQUIRE", "?tls= require", "?tls=%20require", "?tls=require ",
                                "?tls=require#", "?tls=require;pool=2", "?tls="})
        EXPECT_THAT(refusal(std::string("mariadb://host/db") + options), HasSubstr("use off"))
            << options;
    for (const auto* options : {"?pool= 3", "?pool=3 ", "?pool=+3", "?pool="})
        EXPECT_THAT(refusal(std::string("mariadb://host/db") + options), HasSubstr("number"))
            << options;
    EXPECT_THAT(refusal("mariadb://host/db?tls"), HasSubstr("name=value"));
    EXPECT_THAT(refusal("mariadb://host/db?tls=require&tls=off"), HasSubstr("twice"));
    EXPECT_THAT(refusal("mariadb://host/db?tls=off&tls_ca=ca.pem"), HasSubstr("tls_ca is given"));
    EXPECT_EQ(contract::without_password("mariadb://host/db?PASSWORD=geheim"),
              "mariadb://host/db?PASSWORD=***");
}

TEST(mariadb_url, never_tells_its_password)
{
    for (const auto* url :
         {"mariadb://ada:hush@host/db?charset=x", "mariadb://ada:hush@host",
          "mariadb://ada:hush%@host/db", "mariadb://ada:hush@host:x/db", "mysql://ada:hush@host/db",
          "mariadb://ada:hu/sh@host/db?pool=0", "mariadb://ada:hush@host/db?password_file=x"})
        EXPECT_THAT(refusal(url), Not(AnyOf(HasSubstr("hush"), HasSubstr("hu/sh"), "taken")))
            << url;
}

TEST(mariadb_script, is_taken_apart_as_the_client_program_does)
{
    EXPECT_THAT(statements_of("-- why\nCREATE TABLE a (\n  b INT\n);\n\nDELIMITER //\n"
                              "CREATE PROCEDURE p()\nBEGIN\n  -- once;\n  SELECT 1;\nEND //\n"
                              "DELIMITER ;\nSELECT 2;\n"),
                ElementsAre("CREATE TABLE a (\n  b INT\n)",
                            "CREATE PROCEDURE p()\nBEGIN\n  -- once;\n  SELECT 1;\nEND ",
                            "SELECT 2"));
}

} // namespace
} // namespace posthorn::mariadb
