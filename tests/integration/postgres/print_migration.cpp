// Prints the SQL that makes the tables, for scripts that use no Posthorn afterwards.
#include <posthorn/postgres.hpp>

#include <iostream>

int main()
{
    std::cout << posthorn::postgres::migration_sql("postgresql://nobody@127.0.0.1/any");
}
