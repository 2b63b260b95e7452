// Prints the SQL that makes the tables, for scripts that use no Posthorn afterwards.
#include <posthorn/mariadb.hpp>

#include <iostream>

int main()
{
    std::cout << posthorn::mariadb::migration_sql("mariadb://nobody@127.0.0.1/any");
}
