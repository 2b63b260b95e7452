// Where a head ends, and what it says of the body, however the bytes come.
#include "http/request_head.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace posthorn::http {
namespace {

using answer = head_search::answer;
using ::testing::Eq;
using ::testing::Optional;

TEST(request_heads, end_at_the_blank_line_however_they_are_cut)
{
    const std::string head = "POST / HTTP/1.1\r\nA: b\nstray\r\r\n\r\n";
    const auto all = head + "body\r\n\r\n";
    for (std::size_t cut = 0; cut < head.size(); ++cut) {
        head_search search;
        EXPECT_EQ(search.look_at(std::string_view(all).substr(0, cut)), answer::unfinished) << cut;
        EXPECT_EQ(search.look_at(all), answer::complete) << cut;
        EXPECT_EQ(search.size(), head.size()) << cut;
    }
}

TEST(request_heads, do_not_begin_with_the_blank_line)
{
    head_search search;
    EXPECT_EQ(search.look_at("\r\n"), answer::unfinished);
    EXPECT_EQ(search.look_at("\r\n\r\n"), answer::complete);
}

TEST(request_heads, have_a_largest_size_and_number_of_lines)
{
    const std::string line = "A: b\r\n";
    std::string lines;
    for (std::size_t i = 0; i < head_lines_max; ++i)
        lines += line;
    EXPECT_EQ(head_search().look_at(lines + "\r\n"), answer::complete);
    EXPECT_EQ(head_search().look_at(lines + line), answer::unfinished);
    EXPECT_EQ(head_search().look_at(lines + line + "\r\n"), answer::too_large);

    const std::string most(head_bytes_max - 4, 'x');
    EXPECT_EQ(head_search().look_at(most + "\r\n\r\n"), answer::complete);
    EXPECT_EQ(head_search().look_at(most + "x\r\n\r\n"), answer::too_large);
    EXPECT_EQ(head_search().look_at(most + "xxxx"), answer::unfinished);
    EXPECT_EQ(head_search().look_at(most + "xxxxx"), answer::too_large);
    // What has come of the body behind it does not count.
    EXPECT_EQ(head_search().look_at("GET / HTTP/1.1\r\n\r\n" + most + most), answer::complete);
}

TEST(request_heads, are_passed_on_without_ranges)
{
    EXPECT_EQ(for_the_library("GET / HTTP/1.1\r\nrAnge: bytes=0-\r\nRanges: x\r\nRange:y\n"
                              "If-Range: z\r\n\r\n"),
              "GET / HTTP/1.1\r\nRanges: x\r\nIf-Range: z\r\n\r\n");
}

TEST(request_heads, are_passed_on_without_a_wait_for_consent)
{
    const std::string head = "POST / HTTP/1.1\r\nEXPECT: 100-Continue\r\nX: y\r\n\r\n";
    EXPECT_TRUE(awaits_consent(head));
    EXPECT_EQ(for_the_library(head), "POST / HTTP/1.1\r\nX: y\r\n\r\n");
    EXPECT_FALSE(awaits_consent(for_the_library(head)));
}

TEST(request_heads, say_whether_a_body_is_read)
{
    EXPECT_TRUE(has_body("POST / HTTP/1.1\r\n\r\n"));
    EXPECT_FALSE(has_body("DELETE / HTTP/1.1\r\n\r\n"));
    EXPECT_TRUE(has_body("DELETE / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"));
    EXPECT_TRUE(has_body("DELETE / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"));
    EXPECT_FALSE(has_body("GET / HTTP/1.1\r\nContent-Length: 3\r\n\r\n"));
    EXPECT_TRUE(announces_length("GET / HTTP/1.1\r\ncontent-length: 3\r\n\r\n"));
    EXPECT_FALSE(announces_length("POST / HTTP/1.1\r\n\r\n"));
}

// Proves: INB-05
TEST(chunked_bodies, end_after_the_chunk_without_bytes_however_they_are_cut)
{
    const std::string all = "5\r\nhello\r\n0A;x=y\r\n0123\r\n6789\r\n0\r\n\r\n";
    using answer = chunk_search::answer;
    chunk_search search;
    for (std::size_t i = 0; i < all.size(); ++i)
        EXPECT_EQ(search.look_at(all.substr(0, i)), answer::unfinished) << i;
    EXPECT_EQ(search.look_at(all), answer::complete);
    EXPECT_EQ(chunk_search().look_at(all + "another request"), answer::complete);
}

// Proves: INB-05
TEST(chunked_bodies, make_no_sense_where_a_size_is_none)
{
    using answer = chunk_search::answer;
    for (const std::string what : {"x\r\n", "\r\n", "-1\r\n", "0x1\r\n", "fffffffffff\r\n",
                                   "ffffffffffffffffff\r\n", "0\r\nX: y\r\n"})
        EXPECT_EQ(chunk_search().look_at(what), answer::malformed) << what;
    EXPECT_EQ(chunk_search().look_at(std::string(2'000, '0')), answer::malformed);
}

TEST(request_heads, say_how_long_the_body_is_or_that_only_its_end_will_tell)
{
    EXPECT_THAT(announced_body("GET / HTTP/1.1\r\n\r\n"), Optional(0U));
    EXPECT_THAT(announced_body("POST / HTTP/1.1\r\ncontent-LENGTH: \t 12\r\n\r\n"), Optional(12U));
    EXPECT_THAT(announced_body("POST / HTTP/1.1\r\nContent-Length: many\r\n\r\n"),
                Eq(std::nullopt));
    EXPECT_THAT(announced_body("POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"),
                Eq(std::nullopt));
    EXPECT_THAT(announced_body("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n"
                               "Content-Length: 3\r\n\r\n"),
                Eq(std::nullopt));
}

TEST(request_heads, are_refused_when_readers_could_disagree_about_the_body)
{
    const auto clear = [](const std::string& lines) {
        return frames_body_clearly("POST / HTTP/1.1\r\n" + lines + "\r\n");
    };
    EXPECT_TRUE(clear(""));
    EXPECT_TRUE(clear("Content-Length: 3\r\n"));
    EXPECT_TRUE(clear("content-length:3 \t\r\n"));
    EXPECT_TRUE(clear("Transfer-Encoding: Chunked\r\n"));
    EXPECT_FALSE(clear("Content-Length: 3\r\nContent-Length: 4\r\n"));
    EXPECT_FALSE(clear("Content-Length: 3\r\ncontent-length: 3\r\n"));
    EXPECT_FALSE(clear("Content-Length: 3, 3\r\n"));
    EXPECT_FALSE(clear("Content-Length: +3\r\n"));
    EXPECT_FALSE(clear("Content-Length: 0x3\r\n"));
    EXPECT_FALSE(clear("Content-Length: \r\n"));
    EXPECT_FALSE(clear("Content-Length: 99999999999999999999\r\n"));
    EXPECT_FALSE(clear("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"));
    EXPECT_FALSE(clear("Transfer-Encoding: xchunked\r\n"));
    EXPECT_FALSE(clear("Transfer-Encoding: gzip, chunked\r\n"));
    EXPECT_FALSE(clear("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"));
    EXPECT_FALSE(clear("Content-Length : 3\r\n"));
    EXPECT_FALSE(clear("Transfer-Encoding\t: chunked\r\n"));
}

} // namespace
} // namespace posthorn::http
