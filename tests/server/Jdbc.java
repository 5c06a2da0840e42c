import java.sql.Connection;
import java.sql.Date;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Timestamp;

/** Ask the server through pgjdbc, and print a line for each answer. */
public class Jdbc {
  static String rows(ResultSet result) throws SQLException {
    var text = new StringBuilder();
    int columns = result.getMetaData().getColumnCount();
    while (result.next()) {
      for (int column = 1; column <= Math.min(columns, 4); column++) {
        text.append(result.getString(column)).append(',');
      }
      text.append(' ');
    }
    return text.toString();
  }

  public static void main(String[] arguments) throws SQLException {
    var url = "jdbc:postgresql://127.0.0.1:" + arguments[0] + "/flights";
    try (Connection connection = DriverManager.getConnection(url, "ann", arguments[1])) {
      var catalog = connection.getMetaData();
      System.out.println("tables " + rows(catalog.getTables(null, "main", "%", null)));
      System.out.println("columns " + rows(catalog.getColumns(null, "main", "flights", "%")));
      System.out.println("keys " + rows(catalog.getPrimaryKeys(null, "main", "flights")));
      System.out.println("types " + rows(catalog.getTypeInfo()));

      var counted =
          connection.prepareStatement(
              "SELECT COUNT(*) FROM flights WHERE month > ? AND carrier = ? AND departure < ? AND day > ?");
      counted.setInt(1, 6);
      counted.setString(2, "AA");
      counted.setTimestamp(3, Timestamp.valueOf("2030-01-01 00:00:00"));
      counted.setDate(4, Date.valueOf("2024-01-03"));
      for (int time = 0; time < 8; time++) { // from the fifth on the server prepares it
        System.out.println("counted " + rows(counted.executeQuery()));
      }

      connection.setAutoCommit(false);
      var statement = connection.createStatement();
      statement.setFetchSize(2);
      var days =
          statement.executeQuery(
              "SELECT CAST(departure AS date) AS day, AVG(delay) AS delay FROM flights GROUP BY 1");
      int read = 0;
      while (days.next() && days.getDate(1).after(Date.valueOf("2023-12-31"))) {
        read += days.getDouble(2) > 0 ? 1 : 0;
      }
      System.out.println("fetched " + read);
      connection.commit();
      connection.setAutoCommit(true);
      try {
        statement.executeQuery("SELECT plane FROM flights");
      } catch (SQLException error) {
        System.out.println("refused " + error.getSQLState() + " " + error.getMessage());
      }
      System.out.println("valid " + connection.isValid(5));
    }
    try {
      DriverManager.getConnection(url, "ann", "wrong");
    } catch (SQLException error) {
      System.out.println("login " + error.getSQLState());
    }
  }
}
